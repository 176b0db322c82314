import { readFileSync } from 'node:fs';
import { describe, expect, test } from 'vitest';
import { BACKGROUND_FUNCTIONS, backgroundFunction } from '#core/api/background.ts';
import { routes } from '#core/api/routes.ts';
import type { Route } from '#core/http/route.ts';
import { type Resource, resourcesOf, synthesise } from '#test/helpers/templates.ts';
import { stage as dev } from '../../stages/dev.ts';
import { stage as prod } from '../../stages/prod.ts';
import { fits } from '../rehearsal/alarms.ts';
import { isRinging, type MetricOf, metricsOf, type Value } from '../rehearsal/metric-math.ts';

const stages = { dev: synthesise(dev), prod: synthesise(prod) };
const alarms = resourcesOf(stages.prod.observability, 'AWS::CloudWatch::Alarm').map(([, { Properties }]) => Properties);
const ofReleases = resourcesOf(stages.prod.api, 'AWS::CloudWatch::Alarm').map(([, { Properties }]) => Properties);
const filters = resourcesOf(stages.prod.observability, 'AWS::Logs::MetricFilter').map(
  ([, { Properties }]) => Properties,
);

/** Functions of the stage `prod` by the interval of their clock. Those of the pool have theirs in `lib/functions.ts`. */
const CLOCKS: Readonly<Record<string, number>> = {
  'pool-keeper': 1,
  ...Object.fromEntries(
    BACKGROUND_FUNCTIONS.flatMap((fn) => {
      const { everyMinutes } = backgroundFunction(fn);
      return everyMinutes === undefined ? [] : [[fn, everyMinutes]];
    }),
  ),
};
const WORKERS = ['install', 'loop-worker', 'schedule-fired', 'sandbox-dispatch'];
const STREAMS = ['a2a', 'calls', 'downloads', 'events', 'mcp'];
const INDEXES = [...['main', 'main/gsi1', 'main/gsi2'], ...['runs', 'runs/gsi1', 'runs/gsi2'], 'counters'];

/** Values of metrics by their names with dimensions and statistic, as `Errors calls Sum`. */
type Values = Readonly<Record<string, Value>>;

const nameOf = ({ name, dimensions, stat }: MetricOf): string =>
  [name, ...Object.values(dimensions), stat].join(' ').replaceAll('platform-prod-', '');

/** Metrics of a healthy stage without requests: only its clocks run. */
const QUIET: Values = Object.fromEntries(Object.keys(CLOCKS).map((fn) => [`Invocations ${fn} Sum`, 5]));

/** Returns the names of the alarms that ring after these periods, without the prefix of the stage. */
const ringing = (...periods: Values[]): string[] =>
  alarms
    .filter((alarm) =>
      isRinging(
        alarm,
        periods.map((values) => (metric) => values[nameOf(metric)]),
      ),
    )
    .map(({ AlarmName }) => AlarmName.replace('platform-prod-', ''))
    .sort();
const always = (values: Values): Values[] => Array(3).fill({ ...QUIET, ...values });

/** What goes wrong -> values of metrics -> the alarm. */
const TROUBLES: [trouble: string, values: Values, alarm: string][] = [
  ['one in ten requests fails', { '5XXError platform-prod prod Average': 0.1 }, 'api-5xx'],
  ['errors are logged', { 'Failures Sum': 6 }, 'failures'],
  ['requests are refused', { 'RefusedRequests Sum': 21 }, 'refused'],
  ...INDEXES.flatMap((place) =>
    ['ReadThrottleEvents', 'WriteThrottleEvents'].map((event): [string, Values, string] => {
      const [table] = place.split('/');
      const dimensions = place.split('/').reverse().join(' ');
      return [`${event} of ${place}`, { [`${event} ${dimensions} Sum`]: 11 }, `throttled-table-${table}`];
    }),
  ),
  ['requests are slow', { 'AnswerMs SampleCount': 51, 'AnswerMs p99': 3001 }, 'slow'],
  ...Object.entries({
    streams: STREAMS,
    work: WORKERS,
    clocks: Object.keys(CLOCKS).filter((fn) => fn !== 'reconciler'),
  }).flatMap(([group, functions]) =>
    functions.map((fn): [string, Values, string] => [
      `${fn} ends with errors`,
      { [`Errors ${fn} Sum`]: 1 },
      `broken-${group}`,
    ]),
  ),
  ['payments differ', { 'Errors reconciler Sum': 1 }, 'payments-differ'],
  ['a schedule is dead', { 'ApproximateNumberOfMessagesVisible fires-dead Maximum': 1 }, 'dead-letters'],
  ['a change of a service is dead', { 'ApproximateNumberOfMessagesVisible services-dead Maximum': 1 }, 'dead-letters'],
  ['the end of a run is dead', { 'ApproximateNumberOfMessagesVisible sums-dead Maximum': 1 }, 'dead-letters'],
  ['schedules wait', { 'ApproximateAgeOfOldestMessage fires Maximum': 661 }, 'fires-late'],
  ['the scheduler cannot send', { 'TargetErrorCount platform-prod Sum': 1 }, 'timer-errors'],
  ['the scheduler is throttled', { 'InvocationThrottleCount platform-prod Sum': 1 }, 'timer-errors'],
  ['durable runs wait', { 'AsyncEventAge loop-worker Maximum': 300_001 }, 'runs-late'],
  ['ended runs are not counted', { 'IteratorAge usage-writer Maximum': 300_001 }, 'runs-late'],
  ['durable runs are left', { 'RunsLeft Maximum': 1 }, 'runs-left'],
  ['four of five executions are in use', { 'ConcurrentExecutions Maximum': 801 }, 'concurrency'],
  ['a provider is down', { 'ProviderFailures Sum': 21 }, 'provider-errors'],
  ...Object.entries(CLOCKS).map(([fn, minutes]): [string, Values, string] => [
    `the clock of ${fn} stands still`,
    { [`Invocations ${fn} Sum`]: undefined },
    `silent-${minutes}-min`,
  ]),
  [
    'processors of Fargate run out',
    { 'ResourceCount Standard/OnDemand vCPU Fargate Resource Maximum': 801 },
    'fargate-quota',
  ],
  ['no sandbox is free', { 'CallsWaiting Maximum': 1 }, 'pool-empty'],
  ['ECS refuses tasks', { 'TasksNotStarted Sum': 3 }, 'tasks-not-started'],
];

describe('alarms', () => {
  test('exist in prod, but not in dev', () => {
    expect(alarms.length).toBeGreaterThan(20);
    expect(resourcesOf(stages.dev.observability, 'AWS::CloudWatch::Alarm')).toEqual([]);
    expect(resourcesOf(stages.dev.observability, 'AWS::CloudWatch::Dashboard')).toHaveLength(1);
  });

  test('are few, and read few metrics: each costs ten cents a month', () => {
    const all = [...alarms, ...ofReleases];
    expect(all.length).toBeLessThanOrEqual(28);
    expect(all.flatMap(metricsOf).length).toBeLessThanOrEqual(64);
    // CloudWatch's limit.
    for (const alarm of all) expect(metricsOf(alarm).length).toBeLessThanOrEqual(10);
  });

  test('are silent while all is well', () => {
    expect(ringing(...always({}))).toEqual([]);
  });

  test.each(TROUBLES)('%s', (_, values, alarm) => {
    expect(ringing(...always(values))).toEqual([alarm]);
  });

  test('each tells of some trouble, and all that they read is part of one', () => {
    const told = TROUBLES.map(([, , alarm]) => alarm);
    expect(alarms.map(({ AlarmName }) => AlarmName.replace('platform-prod-', '')).sort()).toEqual(
      [...new Set(told)].sort(),
    );
    const known = new Set(TROUBLES.flatMap(([, values]) => Object.keys(values)));
    expect(
      alarms
        .flatMap(metricsOf)
        .map(nameOf)
        .filter((name) => !known.has(name)),
    ).toEqual([]);
  });

  test('all clocks that stand still at once are one trouble', () => {
    expect(ringing({}, {}, {})).toEqual(['silent-1-min']);
  });

  test('a clock with a long interval may be silent for a while after the first deployment', () => {
    const waiting = { ...QUIET, 'Invocations reconciler Sum': undefined, 'Invocations collector Sum': undefined };
    expect(ringing({}, {}, waiting)).not.toContain('silent-1440-min');
    expect(ringing(QUIET, waiting, waiting)).toEqual([]);
  });

  test('requests that are slow ring only among many, and for a while', () => {
    const slow = (requests: number) => ({ ...QUIET, 'AnswerMs SampleCount': requests, 'AnswerMs p99': 20_000 });
    expect(ringing(slow(50), slow(50), slow(50))).toEqual([]);
    expect(ringing(slow(900), QUIET, slow(900))).toEqual([]);
    expect(ringing(...always({ 'AnswerMs SampleCount': 900, 'AnswerMs p99': 2999 }))).toEqual([]);
  });

  test('what happens once is no trouble yet', () => {
    const once = {
      ...QUIET,
      'RefusedRequests Sum': 500,
      'WriteThrottleEvents gsi1 runs Sum': 500,
      'Errors calls Sum': 3,
    };
    expect(ringing(QUIET, once, QUIET)).toEqual([]);
    expect(ringing(once, QUIET, once)).toEqual(['broken-streams', 'refused', 'throttled-table-runs']);
  });

  test.each(alarms.map((alarm) => [alarm.AlarmName, alarm]))(
    '%s says what happened, and names its section of docs/operate.md',
    (_, alarm) => {
      const [, section] = /^[A-Z].+\. What to do: docs\/operate\.md, "([\w-]+)"\.$/.exec(alarm.AlarmDescription)!;
      const page = readFileSync(new URL('../../docs/operate.md', import.meta.url), 'utf8');
      expect(page).toContain(`\n## ${section}\n`);
      expect(alarm.AlarmActions).toHaveLength(1);
      const hasFirstClock = alarm.AlarmName.endsWith('-silent-1-min');
      expect(alarm.TreatMissingData).toBe(hasFirstClock ? 'breaching' : 'notBreaching');
    },
  );

  test('are exactly the sections of docs/operate.md', () => {
    const page = readFileSync(new URL('../../docs/operate.md', import.meta.url), 'utf8');
    const sections = [...page.matchAll(/^## (.+)$/gm)].map(([, title]) => title);
    const told = new Set(
      [...alarms, ...ofReleases].map(({ AlarmDescription }) => /"([\w-]+)"\.$/.exec(AlarmDescription)![1]),
    );
    const rules = resourcesOf(stages.prod.observability, 'AWS::Events::Rule');
    for (const [, { Properties }] of rules) told.add(/"([\w-]+)"\.$/.exec(Properties.Description)![1]);
    expect(sections.filter((title) => !told.has(title))).toEqual([
      'Where to look',
      'daily-cost',
      'CloudFront',
      'Drift',
      'Routine work',
    ]);
  });

  test('the topic is told of findings in images, and of builds that failed, of repositories and projects that exist', () => {
    const { compute, services, observability } = stages.prod;
    const [[topic]] = resourcesOf(observability, 'AWS::SNS::Topic') as [[string, Resource]];
    const rules = resourcesOf(observability, 'AWS::Events::Rule').map(([, { Properties }]) => Properties);
    for (const { Targets } of rules) expect(Targets).toEqual([{ Arn: { Ref: topic }, Id: expect.any(String) }]);
    const named = (type: string, name: string) =>
      [compute!, services!].flatMap((stack) => resourcesOf(stack, type).map(([, { Properties }]) => Properties[name]));
    const repositories = named('AWS::ECR::Repository', 'RepositoryName');
    expect(repositories).toHaveLength(2);
    expect(rules.map(({ EventPattern: { source, detail } }) => [source, detail])).toEqual([
      [
        ['aws.ecr'],
        { 'repository-name': repositories, 'finding-severity-counts': { CRITICAL: [{ numeric: ['>', 0] }] } },
      ],
      [
        ['aws.inspector2'],
        {
          severity: ['CRITICAL'],
          status: ['ACTIVE'],
          resources: { details: { awsEcrContainerImage: { repositoryName: repositories } } },
        },
      ],
      [
        ['aws.codebuild'],
        { 'project-name': named('AWS::CodeBuild::Project', 'Name'), 'build-status': ['FAILED', 'FAULT', 'TIMED_OUT'] },
      ],
    ]);
    const policies = JSON.stringify(resourcesOf(observability, 'AWS::SNS::TopicPolicy'));
    expect(policies).toContain('"Service":"events.amazonaws.com"');
  });

  test('watch functions, tables, queues and APIs that exist', () => {
    const names = new Set(
      [...stages.prod.stacks.map(({ template }) => template)].flatMap(({ Resources }) =>
        Object.values(Resources).flatMap(({ Properties: { FunctionName, TableName, QueueName, Name } = {} }) =>
          [FunctionName, TableName, QueueName, Name].filter((name) => typeof name === 'string'),
        ),
      ),
    );
    const watched = [
      ...JSON.stringify(alarms).matchAll(
        /"Name":"(?:FunctionName|TableName|QueueName|ScheduleGroup|ApiName)","Value":"([^"]+)"/g,
      ),
    ];
    expect(watched.length).toBeGreaterThan(10);
    for (const [, name] of watched) expect(names).toContain(name);
  });

  test('know every clock of the templates', () => {
    const clocks = stages.prod.stacks.flatMap(({ template }) =>
      resourcesOf(template, 'AWS::Events::Rule')
        // The rule of an image starts a build, which reports its own failures.
        .filter(([id, { Properties }]) => Properties.ScheduleExpression !== undefined && !id.startsWith('image'))
        .map(([, { Properties }]) => template.Resources[Properties.Targets[0].Arn['Fn::GetAtt'][0]]!.Properties),
    );
    expect(clocks.map(({ FunctionName }) => FunctionName.replace('platform-prod-', '')).sort()).toEqual(
      Object.keys(CLOCKS).sort(),
    );
  });

  test('know every function that no request waits for', () => {
    const { api, compute, services } = stages.prod;
    const functions = [api, compute!, services!]
      .flatMap((stack) => resourcesOf(stack, 'AWS::Lambda::Function'))
      .flatMap(([, { Properties }]) => Properties.FunctionName?.replace('platform-prod-', '') ?? [])
      // Deployments call these, and fail with them.
      .filter((name) => !/^((pool|services)-cleaner|compile-cache|data-version|release)$/.test(name));
    const rows: readonly Route[] = routes;
    const answering = new Set(rows.filter(({ stream = false }) => !stream).map(({ fn }) => fn as string));
    expect(functions.filter((name) => !answering.has(name)).sort()).toEqual(
      [...STREAMS, ...WORKERS, ...Object.keys(CLOCKS), 'usage-writer'].sort(),
    );
  });

  test('failures of providers are counted wherever models are asked', () => {
    const counting = filters.filter(({ FilterPattern }) => FilterPattern === '{ $.message = "model provider failed" }');
    expect(counting.map(({ LogGroupName }) => LogGroupName.replace('/aws/lambda/platform-prod-', '')).sort()).toEqual([
      'a2a',
      'calls',
      'loop-worker',
      'mcp',
      'schedule-fired',
      'schedule-sweeper',
    ]);
  });

  test('errors in the log of every function are counted', () => {
    const [failures] = alarms.filter(({ AlarmName }) => AlarmName.endsWith('-failures'));
    const { api, compute, services } = stages.prod;
    // CDK's own functions have no name, and a failure of one that CloudFormation calls also fails the deployment.
    const groups = [api, compute!, services!]
      .flatMap((stack) => resourcesOf(stack, 'AWS::Lambda::Function'))
      .map(([, { Properties }]) => Properties.FunctionName)
      .filter(
        (name) => name !== undefined && !/-((pool|services)-cleaner|compile-cache|data-version|release)$/.test(name),
      )
      .map((name) => `/aws/lambda/${name}`);
    const counting = filters.filter(({ FilterPattern }) => FilterPattern === '{ $.level = "ERROR" }');
    expect(counting.map(({ LogGroupName }) => LogGroupName).sort()).toEqual(groups.sort());
    for (const { MetricTransformations } of counting) {
      expect(MetricTransformations).toEqual([
        { MetricNamespace: failures.Namespace, MetricName: failures.MetricName, MetricValue: '1' },
      ]);
    }
  });
});

describe('metrics of the access log', () => {
  const patternOf = (metric: string): string =>
    filters.find(({ MetricTransformations }) => MetricTransformations[0].MetricName === metric).FilterPattern;

  test('belong to the log and the format of the API', () => {
    const [[, { Properties: stage }]] = resourcesOf(stages.prod.api, 'AWS::ApiGateway::Stage') as [[string, Resource]];
    const [[, log]] = resourcesOf(stages.prod.api, 'AWS::Logs::LogGroup').filter(([id]) =>
      JSON.stringify(stage.AccessLogSetting.DestinationArn).includes(id),
    ) as [[string, Resource]];
    for (const metric of ['AnswerMs', 'RefusedRequests']) {
      const own = filters.find(({ MetricTransformations }) => MetricTransformations[0].MetricName === metric);
      expect(own.LogGroupName).toBe(log.Properties.LogGroupName);
      for (const [, field] of own.FilterPattern.matchAll(/\$\.(\w+)/g))
        expect(stage.AccessLogSetting.Format).toContain(`"${field}":`);
    }
    // A filter extracts numbers, not texts.
    expect(stage.AccessLogSetting.Format).toContain('"latency_ms":$context.responseLatency,');
  });

  test.each(routes as readonly Route[])('times of $operationId count unless it waits by nature', (route) => {
    const { path, stream = false, operationId } = route;
    const line = { resource: path, status: '200', error_type: '-' };
    const sharesPath = routes.some((other: Route) => other.path === path && other.stream);
    // One pattern stands for all paths below these: the length of a filter is limited.
    const isBelow = [
      ...['/a2a/', '/openai/v1/', '/public/agents/{org}/{agent}/{version}/', '/public/chats/'],
      ...['/workspaces/{workspace_id}/sessions/{session_id}/', '/{org}/{agent}/'],
    ].some((start) => path.startsWith(start));
    // Its function streams all of its rows, and this one answers at once.
    const isQuick = operationId === 'getCardKeys';
    const waits = !isQuick && (stream || sharesPath || isBelow || operationId === 'uploadBundle');
    expect(fits(patternOf('AnswerMs'), line)).toBe(!waits);
  });

  test.each([
    ['the limit of a workspace', { status: '429', error_type: '-' }, { counts: true, refused: false }],
    ["the API's own limit", { status: '429', error_type: 'THROTTLED' }, { counts: false, refused: true }],
    [
      'a function that does not start',
      { status: '429', error_type: 'INTEGRATION_FAILURE' },
      { counts: false, refused: true },
    ],
    ['no such path', { status: '404', error_type: 'MISSING_AUTHENTICATION_TOKEN' }, { counts: false, refused: false }],
  ])('%s', (_, answer, { counts, refused }) => {
    const line = { resource: '/agents', ...answer };
    expect(fits(patternOf('AnswerMs'), line)).toBe(counts);
    expect(fits(patternOf('RefusedRequests'), line)).toBe(refused);
  });
});
