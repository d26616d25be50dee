# The only door: what CI runs, `make` has. Every target sets up what it needs.
UV_VERSION := 0.13.8
UV := $(shell command -v uv 2>/dev/null || echo .tools/bin/uv)
RUN := $(UV) run --no-sync
STAMP := .venv/.synced
PROTOS := $(shell find protos -name '*.proto') protos/generate.py libs/quorate/wire/schema.py
MADE := libs/kraft/schema.binpb
COMPILED := .venv/.compiled
SPARK := .venv/.spark
PARALLEL = -n $(or $(WORKERS),2) --dist loadfile --no-loadscope-reorder
SOURCES = $(shell find deploy libs services tests -name '*.py' -not -name 'test_*' 2>/dev/null)

.DEFAULT_GOAL := help

help: ## list every target
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F':.*## ' '{printf "  make %-16s %s\n", $$1, $$2}'

setup: $(COMPILED) ## the environment and the generated code, compiled (part of every other target)

run: setup ## the whole control plane on loopback, a topic created, its trace shown (ONCE=1: then exit; GATEWAYS=1: with Kafka's wire; KAFKA=1: with its brokers; BROKERS=1: with ours, records written and read)
	@rm -rf $(CURDIR)/run
	@$(RUN) python -m deploy.local --directory $(CURDIR)/run $(if $(ONCE),--once) $(if $(GATEWAYS),--gateways) $(if $(KAFKA),--kafka) $(if $(BROKERS),--brokers)

report: spark-setup ## what the last `make run` did, as an HTML page (LOGS=DIR: what these logs tell)
	@$(RUN) quorate pipeline run $(if $(LOGS),--from $(LOGS) --to build/lake --report build/report.html,--from run --to run/lake --spans run/observer.db --report run/report.html)

test: setup ## every test that needs no more than Python (WORKERS= processes, a file of tests at a time each)
	@$(RUN) pytest $(PARALLEL) tests -m "not interop and not netns and not mutants and not kube"

explore: setup ## property tests with new examples, ROUNDS times (CI always uses the same examples)
	@for round in $$(seq $(or $(ROUNDS),5)); do \
	env -u CI $(RUN) pytest tests -m "hypothesis and not interop and not mutants" || exit 1; done

check: lint types imports protos-check tidy ## lint, types, import contracts, protos, tidiness

lint: setup ## ruff: rules and format
	@$(RUN) ruff check .
	@$(RUN) ruff format --check .

types: setup ## mypy --strict
	@$(RUN) mypy

imports: setup ## who may import whom
	@$(RUN) lint-imports

protos: setup ## make the Python of protos/ anew
	@$(RUN) python protos/generate.py

protos-check: setup ## buf lint, and buf breaking against the commit before the last one
	@$(RUN) buf lint protos
	@if git rev-parse -q --verify HEAD^ >/dev/null && git cat-file -e HEAD^:protos/buf.yaml 2>/dev/null; \
	then $(RUN) buf breaking protos --against '.git#ref=HEAD^,subdir=protos'; \
	else echo "buf breaking: no earlier commit to compare with"; fi

tidy: setup ## the shape of the tree: sizes, names, docstrings
	@$(RUN) pytest tests/tidy

interop: setup interop-setup ## against Kafka releases (needs a JDK 17 and Maven)
	@$(RUN) pytest $(PARALLEL) tests/interop tests/conformance tests/cli/test_against_kafka.py tests/storage/test_indexes.py tests/partition_log/test_kafkas_tool.py tests/partition_log/test_with_kafka.py

interop-setup: setup ## fetch the jars of these releases into build/, and make what their JVMs start faster with
	@$(RUN) python -m tests.interop.kafka.release
	@$(RUN) python -m tests.interop.kafka.shared_classes

mixed-faults: setup interop-setup ## faults at random in quorums of our nodes and Kafka controllers, for MINUTES (SEED=)
	@$(RUN) python -m tests.interop.mixed_faults --minutes $(or $(MINUTES),30) --seed $(or $(SEED),1)

broker-faults: setup interop-setup ## FAULTS under producers' load, on our control plane and on Kafka's controllers; OWN=1: of brokers, with ours among them and of Kafka's alone (SEED=)
	@$(RUN) python -m tests.interop.$(if $(OWN),own_)broker_faults --faults $(or $(FAULTS),100) --seed $(or $(SEED),1)

e2e: setup ## real processes on loopback; grpcurl where it is on PATH
	@$(RUN) pytest tests/e2e

netns: setup ## partitions and slow links between network namespaces (needs root and iproute2)
	@$(RUN) pytest tests/e2e -m netns

shows: setup ## pauses, cuts, a frozen leader, wiped voters, a hostile environment, under writers and heartbeats (ONLY=, SEED=, SHORT=1)
	@$(RUN) python -m tests.shows $(if $(ONLY),--only $(ONLY)) $(if $(SEED),--seed $(SEED)) $(if $(SHORT),--short)

observer-kills: setup ## kill an observer that keeps a database, KILLS times under writes (SEED=, URL= of PostgreSQL)
	@$(RUN) python -m tests.services.observer.kills --kills $(or $(KILLS),100) --seed $(or $(SEED),1) $(if $(URL),--url $(URL))

kube: setup ## the chart on a Kubernetes of this machine: install, faults, rollouts, teardown (needs root, Go, Debian; SHOWS=, KEEP=1)
	@$(RUN) python -m tests.kube run $(SHOWS) $(if $(KEEP),--keep)

chart: setup chart-setup ## the Helm chart: lint, what it renders by the schemas of each Kubernetes, its values (needs helm: Go builds it into build/bin)
	@$(RUN) pytest $(PARALLEL) tests/deploy/test_chart_*.py tests/deploy/test_dashboards.py tests/deploy/test_spark_operator.py

chart-setup: setup
	@$(UV) sync --frozen --quiet --inexact --group chart
	@command -v helm >/dev/null || test -x build/bin/helm || \
	GOBIN=$(CURDIR)/build/bin go install helm.sh/helm/v3/cmd/helm@v3.19.5

fuzz: setup ## malformed input at every RPC of live processes for SECONDS (SEED=, COUNT=, ARGS="--only placer")
	@$(RUN) python -m tests.fuzz --seconds $(or $(SECONDS),60) --count $(or $(COUNT),0) $(if $(SEED),--seed $(SEED)) $(ARGS)

fuzz-decoders: setup ## COUNT damaged inputs for each decoder of bytes that others write, in one process (SEED=, ARGS="--only SCRAM")
	@$(RUN) python -m tests.fuzz.decoders --count $(or $(COUNT),10000) $(if $(SEED),--seed $(SEED)) $(ARGS)

soak: setup ## run the simulator for SEEDS seeds from BASE on, with progress
	@$(RUN) python -m tests.sim soak --seeds $(or $(SEEDS),1000) --base $(or $(BASE),0) --jobs $(or $(JOBS),2)

soak-controller: setup ## the same with the controller on top of the quorum, brokers and admins
	@$(RUN) python -m tests.sim_controller soak --seeds $(or $(SEEDS),200) --base $(or $(BASE),0) --jobs $(or $(JOBS),2)

soak-driver: setup ## the same with the quorum service's own driver, RPC handlers and disk around the core
	@$(RUN) python -m tests.sim_driver soak --seeds $(or $(SEEDS),200) --base $(or $(BASE),0) --jobs $(or $(JOBS),2)

soak-services: setup ## the same with the controller and heartbeat services' own drivers, forwarding and clients
	@$(RUN) python -m tests.sim_services soak --seeds $(or $(SEEDS),200) --base $(or $(BASE),0) --jobs $(or $(JOBS),2)

mutants: setup ## plant each bug in the simulators, and print how many seeds run before it is found
	@$(RUN) python -m tests.sim mutants
	@$(RUN) python -m tests.sim_controller mutants
	@$(RUN) python -m tests.sim_driver mutants
	@$(RUN) python -m tests.sim_services mutants

mutants-glue: setup ## plant each bug in a copy of the services, and run the test that is to find it
	@$(RUN) python -m tests.mutation planted $(NAMES)

mutation: setup ## how many of COUNT mutations of services and runtime, drawn by SEED, the tests detect
	@$(RUN) --with cosmic-ray==8.7.0 --with coverage==7.17.3 python -m tests.mutation sample --count $(or $(COUNT),100) --seed $(or $(SEED),1)

exhaustive: setup ## walk every state of a small quorum; ARGS as in tests/exhaustive/README.md
	@$(RUN) python -m tests.exhaustive $(ARGS)

spark-setup: setup $(SPARK) ## Spark, and a Java of its own for it

hdfs-setup: spark-setup ## what the tests of logs on HDFS need: Hadoop's NameNode and DataNode (needs Maven)
	@$(RUN) python -m tests.pipeline.hadoop

wheel: setup ## in build/wheel: quorate, the command alone; pyspark-kraft, the pipeline's data source for any PySpark
	@$(RUN) python -m deploy.pyspark.build
	@$(UV) build --quiet --wheel --out-dir build/wheel libs
	@ls build/wheel/*.whl

pipeline: spark-setup ## the tests of the data pipeline on Spark, and of what starts it; its report, and the page of the observer, in Chromium where there is one
	@$(RUN) pytest $(PARALLEL) tests/pipeline tests/deploy tests/cli/test_pipeline.py tests/bench/test_pipeline_benches.py tests/services/observer/test_page_in_browser.py

doctor: spark-setup ## every finding of the fleet doctor, on logs that have it and on near ones, by one run of the command (minutes)
	@DOCTOR_BY_COMMAND=1 $(RUN) pytest tests/pipeline/test_doctor.py

whole: setup interop-setup hdfs-setup chart-setup ## make test, interop, pipeline and chart in one: every test for which this machine has the judges
	@$(RUN) pytest $(PARALLEL) tests -m "not netns and not mutants and not kube"

clients: setup interop-setup ## what clients of other makes are told by brokers of our controllers and of Kafka's (ONLY=; some need Go, npm)
	@$(UV) pip install --quiet --target build/clients/python aiokafka==0.14.0 cramjam==2.14.0 python-snappy==0.7.3 lz4==4.4.5 zstandard==0.25.0 # the codecs of two of them
	@! command -v go >/dev/null || (cd tests/clients/go && go build -o $(CURDIR)/build/clients/go/ ./franz ./sarama ./segmentio ./franzrecords ./saramarecords)
	@mvn -q -B -f tests/clients/java/pom.xml org.apache.maven.plugins:maven-dependency-plugin:3.6.1:copy-dependencies -DoutputDirectory=$(CURDIR)/build/clients/jvm -DincludeScope=runtime
	@javac -nowarn -cp "build/clients/jvm/*" -d build/clients/java tests/clients/java/*.java
	@! command -v npm >/dev/null || (mkdir -p build/clients && cp -r tests/clients/node build/clients/ && npm --prefix build/clients/node install --silent --no-fund)
	@$(RUN) python -m tests.clients --only "$(ONLY)"
	@$(RUN) python -m tests.clients.records --only "$(ONLY)"

fixtures: setup ## run clusters of a Kafka release again and keep their directories as fixtures
	@$(RUN) python -m tests.interop.make_fixtures

bench: setup ## print the figures of tests/bench
	@$(RUN) python -m tests.bench

neighbours: setup interop-setup ## how long good callers wait beside bad ones, here and at Kafka's controllers (NEIGHBOURS_ONLY=, NEIGHBOURS_SECONDS=)
	@$(RUN) python -m tests.bench neighbours

format: setup ## ruff format, and ruff's automatic fixes
	@$(RUN) ruff check --fix .
	@$(RUN) ruff format .

clean: ## what was made, but for the environment
	rm -rf build run $(filter-out libs/kraft/__init__.py,$(wildcard libs/kraft/*))

$(MADE): $(STAMP) $(PROTOS)
	@$(RUN) python protos/generate.py

$(STAMP): Makefile uv.lock pyproject.toml libs/pyproject.toml $(wildcard services/*/pyproject.toml) | uv
	@$(UV) sync --frozen --quiet --inexact --compile-bytecode # inexact: what `make spark-setup` brought stays
	@touch $@

$(SPARK): $(STAMP)
	@$(UV) sync --frozen --quiet --group spark --compile-bytecode
	@touch $@

# Nine processes would each compile all of it: at the first start, and at every one where PYTHONDONTWRITEBYTECODE is set.
$(COMPILED): $(MADE) $(SOURCES)
	@$(RUN) python -m compileall -q -j 2 deploy libs services tests -x '/test_'
	@touch $@

uv:
	@command -v $(UV) >/dev/null || { python3 -m venv .tools && .tools/bin/pip install --quiet uv==$(UV_VERSION); }

.PHONY: whole doctor chart-setup neighbours shows clients help setup run report test explore check lint types imports protos protos-check tidy interop interop-setup mixed-faults spark-setup hdfs-setup wheel pipeline e2e netns kube chart fuzz fuzz-decoders soak soak-controller soak-driver soak-services mutants mutants-glue mutation exhaustive fixtures bench format clean uv broker-faults
