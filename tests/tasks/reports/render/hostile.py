"""Text that tries to become something else when it is shown."""

from tests.hostile import XSS

PAYLOADS = XSS
