import { Aws, CfnOutput, Duration, Stack, type StackProps } from 'aws-cdk-lib';
import { CfnBudget } from 'aws-cdk-lib/aws-budgets';
import {
  Alarm,
  ComparisonOperator,
  Dashboard,
  GraphWidget,
  type IMetric,
  MathExpression,
  Metric,
  Stats,
  TreatMissingData,
} from 'aws-cdk-lib/aws-cloudwatch';
import { SnsAction } from 'aws-cdk-lib/aws-cloudwatch-actions';
import { type EventPattern, Rule } from 'aws-cdk-lib/aws-events';
import { PolicyStatement, ServicePrincipal } from 'aws-cdk-lib/aws-iam';
import { FilterPattern, LogGroup, MetricFilter, type MetricFilterProps } from 'aws-cdk-lib/aws-logs';
import { type ITopic, Topic } from 'aws-cdk-lib/aws-sns';
import { EmailSubscription } from 'aws-cdk-lib/aws-sns-subscriptions';
import type { Construct } from 'constructs';
import { BACKGROUND_FUNCTIONS, backgroundFunction } from '#core/api/background.ts';
import { routes } from '#core/api/routes.ts';
import { FUNCTION_NAMES, type Route } from '#core/http/route.ts';
import { TABLE_NAMES, type TableName } from '#core/ports/table-rules.ts';
import {
  functionNameOf,
  metricNamespaceOf,
  platformNameOf,
  runnerImageNameOf,
  type Stage,
  serviceNamesOf,
  sumNamesOf,
  tablePrefixOf,
  timerNamesOf,
} from '../config.ts';
import { accessLogNameOf } from '../constructs/route-api.ts';
import { operatorsKey } from '../encryption.ts';
import {
  BUFFERED_SECONDS,
  FUNCTIONS,
  type FunctionSpec,
  hasFunction,
  MICROVM_FUNCTIONS,
  POOL_FUNCTIONS,
  SANDBOX_CLOCKS,
} from '../functions.ts';

const PERIOD = Duration.minutes(5);
/** Alarm threshold as a percentage of an account quota. */
const NEAR_QUOTA = 80;
/** Clock whose invocations show that the stage is deployed. */
const FIRST_CLOCK = 'sweeper';
const RECONCILER = 'reconciler';
const USAGE_WRITER = 'usage-writer';
/** Functions that wait for models and programs, and so make up most of the platform's concurrent executions. */
const WAITING_FUNCTIONS = [
  'a2a',
  'calls',
  'events',
  'loop-worker',
  'mcp',
  'schedule-fired',
] as const satisfies (keyof typeof FUNCTIONS)[];

/** Functions that manage sandboxes, by type of sandbox. */
const SANDBOX_FUNCTIONS = {
  none: [],
  fargate: Object.keys(POOL_FUNCTIONS),
  microvm: Object.keys(MICROVM_FUNCTIONS),
} satisfies Record<Stage['sandbox']['kind'], string[]>;

/** Log lines of the pool's keeper (`aws/fargate/keeper.ts`): one each minute, and one when ECS refuses a task. */
const POOL_LINES = {
  SandboxesIdle: { pattern: FilterPattern.stringValue('$.message', '=', 'pool'), value: '$.idle' },
  SandboxesClaimed: { pattern: FilterPattern.stringValue('$.message', '=', 'pool'), value: '$.claimed' },
  CallsWaiting: { pattern: FilterPattern.stringValue('$.message', '=', 'pool'), value: '$.waiting' },
  TasksNotStarted: { pattern: FilterPattern.stringValue('$.message', '=', 'task not started'), value: '1' },
} as const;

/**
 * Time within which 99% of the requests must be answered. Streams and uploads take longer by nature: they wait for
 * models, programs and installations.
 */
const SLOW_MS = 3000;
const UPLOADS: Route['operationId'] = 'uploadBundle';
/** Below this number of requests in a period, cold starts alone would make the slowest hundredth. */
const MIN_REQUESTS = 50;
/**
 * Beginnings of paths of which most are held up by nature. One pattern stands for all of them, because the length of a filter is
 * limited; the few others below them are not measured.
 */
const SLOW_BELOW = [
  '/a2a/',
  '/openai/v1/',
  '/public/agents/{org}/{agent}/{version}/',
  '/public/chats/',
  '/workspaces/{workspace_id}/sessions/{session_id}/',
  '/{org}/{agent}/',
];
/** A row that streams because all of its function do, and answers at once. */
const QUICK: Route['operationId'] = 'getCardKeys';
/** Longest filter pattern: docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutMetricFilter.html. */
const MAX_PATTERN = 1024;

/**
 * Age of the oldest request for `loop-worker`, which Lambda starts within seconds unless it is throttled, and of the oldest
 * ended run for `usage-writer`, which counts it within two seconds unless batches fail.
 */
const LATE_RUN_MS = 5 * 60_000;

/**
 * A metric with its alarm. Each has a section in `docs/operate.md`. Metrics that have the same remedy share one: an
 * expression has at most ten, each of which is billed.
 */
interface Watch {
  /** Name of the alarm, after `platform-<stage>-`. */
  readonly name: string;
  /** What happened, as a sentence. */
  readonly what: string;
  readonly metric: IMetric;
  /** Threshold: the alarm fires above it. */
  readonly above: number;
  /** Treatment of missing data. @default NOT_BREACHING */
  readonly withoutData?: TreatMissingData;
  /** Number of the last three periods that must be above. @default 1 */
  readonly periods?: 1 | 2 | 3;
}

/**
 * A dashboard, and alarms if the stage configures them. It refers to resources by name, so no stack depends on it.
 * Metrics come from AWS or from log lines: no request sends any.
 */
export class ObservabilityStack extends Stack {
  /** Present if the stage has alarms. */
  readonly topic?: ITopic;
  readonly #stage: Stage;

  constructor(scope: Construct, id: string, props: StackProps & { readonly stage: Stage }) {
    super(scope, id, props);
    this.#stage = props.stage;
    this.#countFailures();
    this.#countProviderFailures();
    this.#countLeftRuns();
    this.#readAccessLog();
    if (this.#hasPool) this.#countPoolLines();
    this.#addDashboard();
    if (props.stage.alarms) this.topic = this.#addAlarms(props.stage.alarms);
  }

  #addAlarms({ email, topicArn, dailyUsd, thresholds = {} }: NonNullable<Stage['alarms']>): ITopic {
    const watches = this.#watches();
    const unknown = Object.keys(thresholds).filter((name) => watches.every((watch) => watch.name !== name));
    if (unknown.length > 0) {
      const names = watches.map(({ name }) => name).join(', ');
      throw new Error(`alarms.thresholds: the stage has no alarm ${unknown.join(', ')}, only ${names}`);
    }
    const topic = topicArn === undefined ? this.#addTopic(email) : Topic.fromTopicArn(this, 'alarms', topicArn);
    for (const { name, what, metric, above, periods = 1, withoutData } of watches) {
      const alarm = new Alarm(this, name, {
        alarmName: `${platformNameOf(this.#stage)}-${name}`,
        alarmDescription: `${what} What to do: docs/operate.md, "${sectionOf(name)}".`,
        metric,
        threshold: thresholds[name] ?? above,
        comparisonOperator: ComparisonOperator.GREATER_THAN_THRESHOLD,
        evaluationPeriods: 3,
        datapointsToAlarm: periods,
        treatMissingData: withoutData ?? TreatMissingData.NOT_BREACHING,
      });
      alarm.addAlarmAction(new SnsAction(topic));
      alarm.addOkAction(new SnsAction(topic));
    }
    if (dailyUsd !== undefined) this.#watchCost(dailyUsd, topic);
    this.#watchImages(topic);
    new CfnOutput(this, 'AlarmTopic', { value: topic.topicArn });
    return topic;
  }

  /** Creates a budget: billing metrics exist only in us-east-1, and budgets are account-wide. */
  #watchCost(amount: number, topic: ITopic): void {
    const allowed = topic.addToResourcePolicy(
      new PolicyStatement({
        principals: [new ServicePrincipal('budgets.amazonaws.com')],
        actions: ['sns:Publish'],
        resources: [topic.topicArn],
        conditions: { StringEquals: { 'aws:SourceAccount': Aws.ACCOUNT_ID } },
      }),
    );
    const budget = new CfnBudget(this, 'daily-cost', {
      budget: {
        budgetName: `${platformNameOf(this.#stage)}-${this.region}-daily-cost`,
        budgetType: 'COST',
        timeUnit: 'DAILY',
        budgetLimit: { amount, unit: 'USD' },
      },
      notificationsWithSubscribers: [
        {
          notification: { notificationType: 'ACTUAL', comparisonOperator: 'GREATER_THAN', threshold: 100 },
          subscribers: [{ subscriptionType: 'SNS', address: topic.topicArn }],
        },
      ],
    });
    // AWS Budgets tests the topic when the budget is created.
    if (allowed.policyDependable) budget.node.addDependency(allowed.policyDependable);
  }

  /**
   * Reports vulnerabilities in the runner's images, from either scan type that the account may use, and failed builds.
   */
  #watchImages(topic: ITopic): void {
    const images = [
      ...(this.#hasPool ? ['sandbox' as const] : []),
      ...(this.#hasServices ? ['services' as const] : []),
    ];
    if (images.length === 0) return;
    const repositories = images.map((name) => runnerImageNameOf(this.#stage, name));
    const severe = { CRITICAL: [{ numeric: ['>', 0] }] };
    const events: Record<string, { what: string; eventPattern: EventPattern }> = {
      'image-findings': {
        what: 'A scan has found critical vulnerabilities in an image of the runner.',
        eventPattern: {
          source: ['aws.ecr'],
          detailType: ['ECR Image Scan'],
          detail: { 'repository-name': repositories, 'finding-severity-counts': severe },
        },
      },
      'image-findings-inspector': {
        what: 'Amazon Inspector has found a critical vulnerability in an image of the runner.',
        eventPattern: {
          source: ['aws.inspector2'],
          detailType: ['Inspector2 Finding'],
          detail: {
            severity: ['CRITICAL'],
            status: ['ACTIVE'],
            resources: { details: { awsEcrContainerImage: { repositoryName: repositories } } },
          },
        },
      },
      'image-not-built': {
        what: 'An image of the runner could not be built.',
        eventPattern: {
          source: ['aws.codebuild'],
          detailType: ['CodeBuild Build State Change'],
          detail: {
            'project-name': repositories.map((name) => `${name}-image`),
            'build-status': ['FAILED', 'FAULT', 'TIMED_OUT'],
          },
        },
      },
    };
    topic.addToResourcePolicy(
      new PolicyStatement({
        principals: [new ServicePrincipal('events.amazonaws.com')],
        actions: ['sns:Publish'],
        resources: [topic.topicArn],
      }),
    );
    // `SnsTopic` would warn about an external topic, whose account the stack may not know.
    const target = { bind: () => ({ arn: topic.topicArn }) };
    for (const [name, { what, eventPattern }] of Object.entries(events)) {
      const section = name.replace('-inspector', '');
      new Rule(this, name, {
        description: `${what} What to do: docs/operate.md, "${section}".`,
        eventPattern,
        targets: [target],
      });
    }
  }

  #addTopic(email: string | undefined): Topic {
    const topic = new Topic(this, 'alarms', {
      topicName: `${platformNameOf(this.#stage)}-alarms`,
      enforceSSL: true,
      masterKey: operatorsKey(this, this.#stage),
    });
    if (email) topic.addSubscription(new EmailSubscription(email));
    // A topic policy replaces the default policy of SNS, which lets alarms of the account publish.
    topic.addToResourcePolicy(
      new PolicyStatement({
        principals: [new ServicePrincipal('cloudwatch.amazonaws.com')],
        actions: ['sns:Publish'],
        resources: [topic.topicArn],
        conditions: { StringEquals: { 'aws:SourceAccount': Aws.ACCOUNT_ID } },
      }),
    );
    return topic;
  }

  get #hasPool(): boolean {
    return this.#stage.sandbox.kind === 'fargate';
  }

  get #hasServices(): boolean {
    return this.#stage.services.kind !== 'off';
  }

  /** One metric for all functions; the log says which function failed. */
  #countFailures(): void {
    const filterPattern = FilterPattern.stringValue('$.level', '=', 'ERROR');
    for (const fn of [...FUNCTION_NAMES, ...this.#withoutRequests]) {
      this.#countLines(`${fn}-failures`, fn, { filterPattern, metricName: 'Failures', metricValue: '1' });
    }
  }

  /** Counts runs that ended because their provider did not respond: `core/execution/calls/finish.ts`. */
  #countProviderFailures(): void {
    const filterPattern = FilterPattern.stringValue('$.message', '=', 'model provider failed');
    for (const [fn] of Object.entries(FUNCTIONS).filter(([, { models }]) => models)) {
      this.#countLines(`${fn}-providers`, fn, { filterPattern, metricName: 'ProviderFailures', metricValue: '1' });
    }
  }

  /** Counts runs that nobody takes up: `core/execution/durable/ask-for-due-runs.ts`. */
  #countLeftRuns(): void {
    const filterPattern = FilterPattern.stringValue('$.message', '=', 'run not taken up');
    this.#countLines('left-runs', 'sweeper', { filterPattern, metricName: 'RunsLeft', metricValue: '1' });
  }

  /**
   * Extracts two metrics from the access log of the API: the times of all answers that nothing holds up by nature, and
   * the requests that API Gateway refused with 429. The platform's own limits answer 429, too, with no type of error.
   */
  #readAccessLog(): void {
    const logGroup = LogGroup.fromLogGroupName(this, 'access-log', accessLogNameOf(this.#stage));
    const metricNamespace = metricNamespaceOf(this.#stage);
    const slowPaths = (routes as readonly Route[])
      .filter(({ stream = false, operationId }) => (stream && operationId !== QUICK) || operationId === UPLOADS)
      .map(({ path }) => SLOW_BELOW.find((start) => path.startsWith(start))?.concat('*') ?? path);
    const answered = FilterPattern.all(
      FilterPattern.stringValue('$.error_type', '=', '-'),
      ...[...new Set(slowPaths)].map((path) => FilterPattern.stringValue('$.resource', '!=', path)),
    );
    const { length } = answered.logPatternString;
    if (length > MAX_PATTERN) throw new Error(`the filter of answers has ${length} of ${MAX_PATTERN} characters`);
    const refused = FilterPattern.all(
      FilterPattern.stringValue('$.status', '=', '429'),
      FilterPattern.stringValue('$.error_type', '!=', '-'),
    );
    const metrics = [
      { metricName: 'AnswerMs', filterPattern: answered, metricValue: '$.latency_ms' },
      { metricName: 'RefusedRequests', filterPattern: refused, metricValue: '1' },
    ];
    for (const metric of metrics) new MetricFilter(this, metric.metricName, { logGroup, metricNamespace, ...metric });
  }

  #countPoolLines(): void {
    for (const [metricName, { pattern: filterPattern, value: metricValue }] of Object.entries(POOL_LINES)) {
      this.#countLines(metricName, 'pool-keeper', { filterPattern, metricName, metricValue });
    }
  }

  #countLines(id: string, fn: string, lines: Pick<MetricFilterProps, 'filterPattern' | 'metricName' | 'metricValue'>) {
    const logGroup = LogGroup.fromLogGroupName(this, `${id}-log`, `/aws/lambda/${functionNameOf(this.#stage, fn)}`);
    new MetricFilter(this, id, { logGroup, metricNamespace: metricNamespaceOf(this.#stage), ...lines });
  }

  #watches(): Watch[] {
    const timers = timerNamesOf(this.#stage);
    return [
      {
        name: 'api-5xx',
        what: 'More than 5% of the requests were answered with a 5xx status.',
        metric: this.#api('5XXError', Stats.AVERAGE),
        above: 0.05,
        periods: 2,
      },
      {
        name: 'failures',
        what: 'Unexpected errors occurred.',
        metric: this.#failures(),
        above: 5,
      },
      {
        name: 'refused',
        what: 'API Gateway refused requests: above a rate limit, or because Lambda could not start functions.',
        metric: this.#ours('RefusedRequests', Stats.SUM),
        above: 20,
        periods: 2,
      },
      ...TABLE_NAMES.map((table) => ({
        name: `throttled-table-${table}`,
        what: `DynamoDB refused requests to the table "${table}" or its indexes for a while.`,
        metric: this.#tableThrottles(table),
        above: 10,
        periods: 2 as const,
      })),
      {
        name: 'slow',
        what: `More than 1% of the requests took over ${SLOW_MS / 1000} s.`,
        metric: new MathExpression({
          expression: `IF(requests > ${MIN_REQUESTS}, slowest, 0)`,
          usingMetrics: {
            requests: this.#ours('AnswerMs', Stats.SAMPLE_COUNT),
            slowest: this.#ours('AnswerMs', Stats.p(99)),
          },
          period: PERIOD,
          label: 'p99, ms',
        }),
        above: SLOW_MS,
        periods: 3,
      },
      ...Object.entries(this.#breakable).map(([group, functions]) => ({
        name: `broken-${group}`,
        what: `One of these functions ended with an error, ran out of memory or timed out: ${functions.join(', ')}.`,
        metric: sumOf(functions.map((fn) => [fn, this.#lambda('Errors', Stats.SUM, fn)])),
        above: 0,
        periods: 2 as const,
      })),
      {
        name: 'payments-differ',
        what: 'Purchased credits differed from the records of the payment provider, or could not be compared.',
        metric: this.#lambda('Errors', Stats.SUM, RECONCILER),
        above: 0,
      },
      {
        name: 'dead-letters',
        what: 'Due schedules, ends of runs or changes to services could not be handled: they are in a dead-letter queue.',
        metric: sumOf(Object.entries(this.#deadQueues).map(([name, queue]) => [name, this.#messages(queue)])),
        above: 0,
      },
      {
        name: 'fires-late',
        what: 'Due schedules wait in their queue for longer than a run may take.',
        metric: this.#queue('ApproximateAgeOfOldestMessage', timers.queue),
        above: FUNCTIONS['schedule-fired'].timeoutSeconds,
      },
      {
        name: 'timer-errors',
        what: "EventBridge Scheduler could not send due schedules to their queue, or the account's quota held them back.",
        metric: sumOf([
          ['failed', this.#scheduler('TargetErrorCount')],
          ['throttled', this.#scheduler('InvocationThrottleCount')],
        ]),
        above: 0,
        periods: 2,
      },
      {
        name: 'runs-late',
        what: 'Durable runs wait for the function that continues them, or ended runs for the one that counts their usage.',
        metric: new MathExpression({
          expression: 'MAX([continued, counted])',
          usingMetrics: {
            continued: this.#lambda('AsyncEventAge', Stats.MAXIMUM, 'loop-worker'),
            counted: this.#lambda('IteratorAge', Stats.MAXIMUM, USAGE_WRITER),
          },
          period: PERIOD,
          label: 'ms',
        }),
        above: LATE_RUN_MS,
      },
      {
        name: 'runs-left',
        what: 'Runs wait past their time, or lost their function, and no other one has taken them up.',
        metric: this.#ours('RunsLeft', Stats.MAXIMUM),
        above: 0,
        periods: 2,
      },
      {
        name: 'concurrency',
        what: `More than ${NEAR_QUOTA}% of the account's concurrent executions are in use, by the platform or others.`,
        metric: percentOfQuota(this.#lambda('ConcurrentExecutions', Stats.MAXIMUM)),
        above: NEAR_QUOTA,
        periods: 2,
      },
      {
        name: 'provider-errors',
        what: 'Runs failed because model providers did not respond.',
        metric: this.#ours('ProviderFailures', Stats.SUM),
        above: 20,
        periods: 2,
      },
      ...Object.entries(Object.groupBy(this.#clocks(), ([, everyMinutes]) => String(everyMinutes))).map(
        ([everyMinutes, clocks = []]) =>
          this.#beats(
            Number(everyMinutes),
            clocks.map(([fn]) => fn),
          ),
      ),
      ...(this.#hasPool || this.#hasServices ? [this.#fargateQuota()] : []),
      ...(this.#hasPool ? this.#poolWatches() : []),
    ];
  }

  /**
   * Functions whose errors no answer shows, by what they do: a broken stream has already sent its status, and clients do
   * not see errors of background work.
   */
  get #breakable(): Record<'streams' | 'clocks' | 'work', string[]> {
    const clocks = this.#clocks().map(([fn]) => fn);
    return {
      streams: FUNCTION_NAMES.filter((fn) => FUNCTIONS[fn].timeoutSeconds > BUFFERED_SECONDS),
      // The reconciler fails when payments differ, and has its own alarm.
      clocks: clocks.filter((fn) => fn !== RECONCILER),
      // What `usage-writer` fails at comes again until it is late, which has an alarm.
      work: this.#withoutRequests.filter((fn) => !clocks.includes(fn) && fn !== USAGE_WRITER),
    };
  }

  get #deadQueues(): Record<string, string> {
    return {
      fires: timerNamesOf(this.#stage).deadQueue,
      sums: sumNamesOf(this.#stage).deadQueue,
      ...(this.#hasServices && { services: serviceNamesOf(this.#stage).deadQueue }),
    };
  }

  #poolWatches(): Watch[] {
    return [
      {
        name: 'pool-empty',
        what: 'Calls waited minutes for a sandbox, or were refused because none was free.',
        metric: this.#ours('CallsWaiting', Stats.MAXIMUM),
        above: 0,
        periods: 2,
      },
      {
        name: 'tasks-not-started',
        what: 'ECS did not start tasks for sandboxes.',
        metric: this.#ours('TasksNotStarted', Stats.SUM),
        above: 2,
        periods: 2,
      },
    ];
  }

  #fargateQuota(): Watch {
    const dimensionsMap = { Service: 'Fargate', Type: 'Resource', Resource: 'vCPU', Class: 'Standard/OnDemand' };
    const statistic = Stats.MAXIMUM;
    return {
      name: 'fargate-quota',
      what: `More than ${NEAR_QUOTA}% of the account's Fargate vCPU quota is in use.`,
      metric: percentOfQuota(
        new Metric({ namespace: 'AWS/Usage', metricName: 'ResourceCount', dimensionsMap, statistic, period: PERIOD }),
      ),
      above: NEAR_QUOTA,
      periods: 2,
    };
  }

  /** Functions that a clock invokes, with the interval in minutes. */
  #clocks(): [fn: string, everyMinutes: number][] {
    return this.#withoutRequests.flatMap((fn): [string, number][] => {
      const background = BACKGROUND_FUNCTIONS.find((name) => name === fn);
      const everyMinutes = background
        ? backgroundFunction(background).everyMinutes
        : SANDBOX_CLOCKS[fn as keyof typeof SANDBOX_CLOCKS];
      return everyMinutes === undefined ? [] : [[fn, everyMinutes]];
    });
  }

  /**
   * Number of functions with the same interval that their clocks did not invoke. Clocks with a long interval have not
   * beaten for a while after the first deployment, so only times count in which the first clock ran: a sum ignores
   * missing data.
   */
  #beats(everyMinutes: number, functions: readonly string[]): Watch {
    const period = Duration.minutes(Math.min(Math.max(5, 2 * everyMinutes), 1440));
    const calls = (fn: string) => this.#lambda('Invocations', Stats.SUM, fn).with({ period });
    const hasFirst = functions.includes(FIRST_CLOCK);
    const beaten = [...(hasFirst ? [] : ['first * 0']), ...functions.map((fn) => `IF(${idOf(fn)} > 0, 1, 0)`)];
    return {
      name: `silent-${everyMinutes}-min`,
      what: `A clock no longer invokes one of its functions: ${functions.join(', ')}.`,
      metric: new MathExpression({
        expression: `${functions.length} - SUM([${beaten.join(', ')}])`,
        usingMetrics: {
          ...(!hasFirst && { first: calls(FIRST_CLOCK) }),
          ...Object.fromEntries(functions.map((fn) => [idOf(fn), calls(fn)])),
        },
        period,
        label: 'silent',
      }),
      above: 0,
      periods: 3,
      ...(hasFirst && { withoutData: TreatMissingData.BREACHING }),
    };
  }

  /** Functions that are invoked by a clock, an event or another function. */
  get #withoutRequests(): string[] {
    const background = BACKGROUND_FUNCTIONS.filter((name) => hasFunction(this.#stage, name));
    return [...background, ...SANDBOX_FUNCTIONS[this.#stage.sandbox.kind]];
  }

  #addDashboard(): void {
    const graph = (title: string, left: IMetric[], right: IMetric[] = []) =>
      new GraphWidget({ title, left, right, width: 12 });
    // Dashboard names are unique per account.
    const dashboardName = `${platformNameOf(this.#stage)}-${this.region}`;
    const dashboard = new Dashboard(this, 'dashboard', { dashboardName });
    dashboard.addWidgets(
      graph(
        'Requests, and those that failed',
        [this.#api('Count', Stats.SUM)],
        [
          this.#api('5XXError', Stats.SUM),
          this.#api('4XXError', Stats.SUM),
          this.#ours('RefusedRequests', Stats.SUM),
          this.#failures(),
        ],
      ),
      graph('Until the answer, ms', [this.#api('Latency', Stats.p(50)), this.#api('Latency', Stats.p(99))]),
      graph(
        'Duration of functions, p99, ms',
        FUNCTION_NAMES.map((fn) => this.#lambda('Duration', Stats.p(99), fn)),
      ),
      graph(
        'Functions at once in the account, and those of the platform that wait; cold starts, those with a compile cache, and what was not started',
        [undefined, ...WAITING_FUNCTIONS].map((fn) => this.#lambda('ConcurrentExecutions', Stats.MAXIMUM, fn)),
        // Metric names of Powertools: `functions/host.ts`.
        [
          ...['ColdStart', 'CompileCacheHits'].map((name) => this.#ours(name, Stats.SUM, { service: 'platform' })),
          this.#lambda('Throttles', Stats.SUM),
        ],
      ),
      graph(
        'Functions that broke',
        [...FUNCTION_NAMES, ...this.#withoutRequests].map((fn) => this.#lambda('Errors', Stats.SUM, fn)),
      ),
      graph(
        'Tables: read and write units, and what was refused',
        TABLE_NAMES.flatMap((table) => [
          this.#dynamoDb('ConsumedReadCapacityUnits', table),
          this.#dynamoDb('ConsumedWriteCapacityUnits', table),
        ]),
        TABLE_NAMES.map((table) => this.#tableThrottles(table)),
      ),
    );
    if (this.#hasPool) {
      dashboard.addWidgets(
        graph(
          'Sandboxes, and calls that wait for one',
          [this.#ours('SandboxesIdle', Stats.AVERAGE), this.#ours('SandboxesClaimed', Stats.MAXIMUM)],
          [this.#ours('CallsWaiting', Stats.MAXIMUM), this.#ours('TasksNotStarted', Stats.SUM)],
        ),
      );
    }
    if (this.#hasServices) {
      dashboard.addWidgets(
        graph(
          'Services: how often and how long they are looked at, and what failed',
          [this.#lambda('Invocations', Stats.SUM, 'service-keeper')],
          [
            this.#lambda('Duration', Stats.MAXIMUM, 'service-keeper'),
            this.#messages(serviceNamesOf(this.#stage).deadQueue),
          ],
        ),
      );
    }
  }

  /** Number of messages in a queue. */
  #messages(queueName: string): Metric {
    return this.#queue('ApproximateNumberOfMessagesVisible', queueName);
  }

  #queue(metricName: string, QueueName: string): Metric {
    const dimensionsMap = { QueueName };
    return new Metric({ namespace: 'AWS/SQS', metricName, dimensionsMap, statistic: Stats.MAXIMUM, period: PERIOD });
  }

  #scheduler(metricName: string): Metric {
    const dimensionsMap = { ScheduleGroup: timerNamesOf(this.#stage).group };
    return new Metric({ namespace: 'AWS/Scheduler', metricName, dimensionsMap, statistic: Stats.SUM, period: PERIOD });
  }

  #api(metricName: string, statistic: string): Metric {
    const dimensionsMap = { ApiName: platformNameOf(this.#stage), Stage: this.#stage.name };
    return new Metric({ namespace: 'AWS/ApiGateway', metricName, dimensionsMap, statistic, period: PERIOD });
  }

  /** Returns a Lambda metric; if `fn` is absent, of all functions of the account in this Region. */
  #lambda(metricName: string, statistic: string, fn?: string): Metric {
    const dimensionsMap = fn === undefined ? undefined : { FunctionName: functionNameOf(this.#stage, fn) };
    return new Metric({
      namespace: 'AWS/Lambda',
      metricName,
      dimensionsMap,
      statistic,
      period: PERIOD,
      label: fn,
    });
  }

  /** Returns a metric of a table, or of one of its indexes. */
  #dynamoDb(metricName: string, table: string, index?: string): Metric {
    return new Metric({
      namespace: 'AWS/DynamoDB',
      metricName,
      dimensionsMap: {
        TableName: tablePrefixOf(this.#stage) + table,
        ...(index !== undefined && { GlobalSecondaryIndexName: index }),
      },
      statistic: Stats.SUM,
      period: PERIOD,
      label: [table, index, metricName].filter((part) => part !== undefined).join(' '),
    });
  }

  /** Refused requests of a table. DynamoDB counts those of an index apart, and refuses writes to a table for an index. */
  #tableThrottles(table: TableName): MathExpression {
    const metrics = [undefined, ...indexesOf(table)].flatMap((index) =>
      (['Read', 'Write'] as const).map((kind) => {
        const metric = this.#dynamoDb(`${kind}ThrottleEvents`, table, index);
        return [`${table}${kind}s${index ?? ''}`, metric] as const;
      }),
    );
    return sumOf(metrics, `${table} refused`);
  }

  #failures(): Metric {
    return this.#ours('Failures', Stats.SUM);
  }

  #ours(metricName: string, statistic: string, dimensionsMap?: Record<string, string>): Metric {
    const namespace = metricNamespaceOf(this.#stage);
    return new Metric({ namespace, metricName, dimensionsMap, statistic, period: PERIOD });
  }
}

/**
 * Returns the percentage of a quota for a metric that Service Quotas supports:
 * docs.aws.amazon.com/AmazonCloudWatch/latest/monitoring/CloudWatch-Service-Quota-Integration.html.
 */
const percentOfQuota = (used: Metric): MathExpression =>
  new MathExpression({ expression: '100 * used / SERVICE_QUOTA(used)', usingMetrics: { used }, period: PERIOD });

/** Returns the sum of named metrics, which ignores those without data. */
function sumOf(metrics: readonly (readonly [name: string, metric: Metric])[], label?: string): MathExpression {
  const usingMetrics = Object.fromEntries(metrics.map(([name, metric]) => [idOf(name), metric]));
  const expression = `SUM([${Object.keys(usingMetrics).join(', ')}])`;
  return new MathExpression({ expression, usingMetrics, period: PERIOD, ...(label !== undefined && { label }) });
}

/** Returns the id of a metric in an expression, which may not contain hyphens. */
const idOf = (name: string): string => name.replaceAll('-', '_');

/** Returns the indexes of a table that functions query. Items have no attributes of the other ones. */
const indexesOf = (table: TableName): string[] =>
  [...new Set(Object.values<FunctionSpec>(FUNCTIONS).flatMap(({ tables }) => tables?.[table]?.query ?? []))]
    .filter((index) => index !== 'table')
    .sort();

/** Alarms such as `broken-streams` and `broken-work` share a section. */
const sectionOf = (name: string): string => name.replace(/^(broken|silent|throttled-table)-.*/, '$1');
