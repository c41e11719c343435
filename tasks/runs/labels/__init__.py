"""Labels of people, and grades beside them, as a stored run has them."""
