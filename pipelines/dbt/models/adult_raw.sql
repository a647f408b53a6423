-- The table as it arrives: for nobody's eyes but those of the models below.
select * from read_csv('{{ env_var("PRIVPIPE_PIPELINES", "..") }}/adult/data/adult.csv', delim=';', header=true)
