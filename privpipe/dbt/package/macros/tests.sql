{# Generic tests. They run after the table is there: `dbt build` skips what refers to it, and its readers saw it. #}

{% test k_anonymity(model, columns, k, suppression_mark="*") %}
{{- privpipe.require_plain_test() }}
{{ privpipe.classes_below(model, columns, k, suppression_mark) }}
{% endtest %}

{% test distinct_l_diversity(model, columns, column, l, suppression_mark="*") %}
{{- privpipe.require_plain_test() }}
{{ privpipe.classes_less_diverse(model, columns, column, l, suppression_mark) }}
{% endtest %}
