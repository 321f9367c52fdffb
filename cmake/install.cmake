# Filled later.
