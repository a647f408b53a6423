-- Skipped, since what it refers to was refused.
select count(*) as records from {{ ref("adult_by_hand") }}
