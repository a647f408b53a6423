"""The three criteria of WP216, each as an attack with a control: singling out, linkability, inference."""
