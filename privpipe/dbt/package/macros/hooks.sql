{# Post-hooks of models that are materialized as a table. dbt-duckdb runs them before it commits: a hook that raises
   rolls the new table back, and the old one stays. Not so with `transaction: false`. #}

{% macro require_k_anonymity(relation, columns, k, suppression_mark="*") -%}
  {{ privpipe.refuse_by(privpipe.classes_below(relation, columns, k, suppression_mark)) }}
{%- endmacro %}

{% macro require_distinct_l_diversity(relation, columns, column, l, suppression_mark="*") -%}
  {{ privpipe.refuse_by(privpipe.classes_less_diverse(relation, columns, column, l, suppression_mark)) }}
{%- endmacro %}

{% macro refuse_by(failing) -%}
  select error('refused: ' || guarantee || ' asked ' || asked || ', reached ' || reached || '. The model was not built.')
  from ({{ failing }}) as failing
{%- endmacro %}
