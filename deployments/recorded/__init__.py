"""`assizes judge-tables`: recorded judges of others beside the product's own."""
