"""Labels of people: which of them count."""
