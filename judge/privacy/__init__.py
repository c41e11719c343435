"""What is hidden of a case before a model, the store or a report sees it."""
