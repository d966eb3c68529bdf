"""Tables, figures and the report, made from records alone, without torch."""
