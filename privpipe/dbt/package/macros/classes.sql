{# Equivalence classes in SQL of DuckDB, as privpipe defines them: a null is a value of its own, texts are compared
   byte by byte whatever their collation, and a record that bears the mark in every quasi-identifier is in no class. #}

{% macro quoted(name) -%}
  "{{ name | replace('"', '""') }}"
{%- endmacro %}

{% macro keys_of(relation, columns) -%}
  {#- Each column as it is compared. A column that is not there is an error, never a class less. -#}
  {%- set known = {} -%}
  {%- for each in adapter.get_columns_in_relation(relation) -%}
    {%- do known.update({each.name | lower: each}) -%}
  {%- endfor -%}
  {%- set keys = [] -%}
  {%- for name in columns -%}
    {%- if (name | lower) not in known -%}
      {{ exceptions.raise_compiler_error("privpipe: column " ~ name ~ " is not in " ~ relation) }}
    {%- endif -%}
    {%- set column = privpipe.quoted(known[name | lower].name) -%}
    {%- set text = known[name | lower].dtype | upper -%}
    {%- do keys.append("encode(" ~ column ~ ")" if text.startswith("VARCHAR") or text in ("TEXT", "STRING", "CHAR", "BPCHAR") else column) -%}
  {%- endfor -%}
  {{ return(keys) }}
{%- endmacro %}

{% macro require_whole(columns, bound, name) -%}
  {#- What would let a part of the table, or of what fails, decide. -#}
  {%- if columns is string or columns is not iterable or (columns | length) == 0 -%}
    {{ exceptions.raise_compiler_error("privpipe: give `columns` as a list of the quasi-identifiers") }}
  {%- endif -%}
  {%- if bound is not integer or bound is boolean or bound < 1 -%}
    {{ exceptions.raise_compiler_error("privpipe: " ~ name ~ " must be a whole number of at least 1") }}
  {%- endif -%}
{%- endmacro %}

{% macro require_plain_test() -%}
  {%- for setting in ("where", "limit", "fail_calc", "error_if", "warn_if") if execute -%}
    {%- set given = config.get(setting) -%}
    {%- if given is not none and given | string not in ("", "count(*)", "!= 0") -%}
      {{ exceptions.raise_compiler_error("privpipe: a test with `" ~ setting ~ "` would judge a part; leave it out") }}
    {%- endif -%}
  {%- endfor -%}
{%- endmacro %}

{% macro not_suppressed(columns, mark) -%}
  not (
  {%- for name in columns %}
    coalesce(encode(cast({{ privpipe.quoted(name) }} as varchar)) = encode('{{ mark | replace("'", "''") }}'), false)
    {{- " and" if not loop.last }}
  {%- endfor %}
  )
{%- endmacro %}

{% macro classes_below(relation, columns, k, mark="*") -%}
  {#- One row where the table has no class or a class of fewer than k records; no row where it passes. -#}
  {{- privpipe.require_whole(columns, k, "k") -}}
  {%- set keys = privpipe.keys_of(relation, columns) if execute else [] -%}
  select 'k_anonymity' as guarantee, {{ k }} as asked, coalesce(min(records), 0) as reached
  from (
    select count(*) as records from {{ relation }} where {{ privpipe.not_suppressed(columns, mark) }}
    {%- if keys %} group by {{ keys | join(", ") }}{% endif %}
  ) as classes
  having coalesce(min(records), 0) < {{ k }}
{%- endmacro %}

{% macro classes_less_diverse(relation, columns, column, l, mark="*") -%}
  {#- The same for fewer than l distinct values of `column`; a null is one of them. -#}
  {{- privpipe.require_whole(columns, l, "l") -}}
  {%- set keys = privpipe.keys_of(relation, columns) if execute else [] -%}
  {%- set value = privpipe.keys_of(relation, [column])[0] if execute else "0" -%}
  select 'distinct_l_diversity' as guarantee, {{ l }} as asked, coalesce(min(spread), 0) as reached
  from (
    select count(distinct {{ value }}) + max(case when {{ value }} is null then 1 else 0 end) as spread
    from {{ relation }} where {{ privpipe.not_suppressed(columns, mark) }}
    {%- if keys %} group by {{ keys | join(", ") }}{% endif %}
  ) as classes
  having coalesce(min(spread), 0) < {{ l }}
{%- endmacro %}
