-- Judged in SQL before it is committed: where a class is too small the table of the run before stays.
{{ config(post_hook="{{ privpipe.require_k_anonymity(this, ['age', 'sex'], 5) }}") }}
select age // {{ env_var("PRIVPIPE_AGE_BAND", "20") }} as age, sex, income from {{ ref("adult_raw") }}
