import { type Resource, synthesise } from '#test/helpers/templates.ts';
import { stage } from '../stages/prod.ts';

/** US dollars a month in us-east-1, without free tiers: aws.amazon.com/cloudwatch/pricing, aws.amazon.com/secrets-manager/pricing, aws.amazon.com/kms/pricing. */
const PRICES = {
  alarmMetric: 0.1,
  customMetric: 0.3,
  dashboard: 3,
  secret: 0.4,
  secretRequest: 0.05 / 10_000,
  kmsKey: 1,
  /** For one workspace's secrets in the main table, with point-in-time recovery: aws.amazon.com/dynamodb/pricing. */
  tableGb: 0.25 + 0.2,
  kmsRequest: 0.03 / 10_000,
  invocation: 0.2e-6,
  gbSecond: 0.0000133334,
};
const MINUTES = 730 * 60;
const MILLION = 1e6;
const UNITS: Readonly<Record<string, number>> = { minute: 1, hour: 60, day: 24 * 60 };
/** Assumed duration of a scheduled call with nothing to do, at 0.25 GB. */
const TICK_GB_SECONDS = 0.25 * 0.25;

const WORKSPACES = 10_000;
/** Both items of a vault with ten secrets of 100 characters, as DynamoDB counts them. */
const VAULT_GB = 2.5e-6;

const money = (amount: number): string => `$${amount.toFixed(2)}`;

/** Returns the cost of an idle stage, a section of `docs/costs.md`, counted in the templates of the stage `prod`. */
export function idleCosts(): string {
  const all: Resource[] = synthesise(stage).stacks.flatMap(({ template }) => Object.values(template.Resources));
  const of = (type: string) => all.filter(({ Type }) => Type === type).map(({ Properties }) => Properties);
  // An alarm on an expression is billed for each metric in it.
  const alarmed = of('AWS::CloudWatch::Alarm').flatMap(({ Metrics = [{ MetricStat: {} }] }) =>
    Metrics.filter(({ MetricStat }: { MetricStat?: object }) => MetricStat !== undefined),
  ).length;
  const alarms = of('AWS::CloudWatch::Alarm').length;
  const metrics = new Set(
    of('AWS::Logs::MetricFilter').flatMap(({ MetricTransformations }) =>
      MetricTransformations.map(({ MetricName }: { MetricName: string }) => MetricName),
    ),
  ).size;
  const dashboards = of('AWS::CloudWatch::Dashboard').length;
  const secrets = of('AWS::SecretsManager::Secret').length;
  const keys = of('AWS::KMS::Key').length;
  const ticks = of('AWS::Events::Rule').reduce((sum, { ScheduleExpression = '' }) => {
    const [, count, unit] = /^rate\((\d+) (minute|hour|day)s?\)$/.exec(ScheduleExpression) ?? [];
    return unit === undefined ? sum : sum + MINUTES / (Number(count) * UNITS[unit]!);
  }, 0);
  const rows = [
    [`${alarms} alarms on ${alarmed} metrics, where the stage has \`alarms\``, alarmed * PRICES.alarmMetric],
    [`${metrics} custom metrics, in hours that have log lines of them`, metrics * PRICES.customMetric],
    [`${dashboards} dashboard of CloudWatch`, dashboards * PRICES.dashboard],
    ...(secrets > 0 ? [[`${secrets} secrets in the templates`, secrets * PRICES.secret] as const] : []),
    [`${keys} key of KMS, and as much again after each of its first two yearly rotations`, keys * PRICES.kmsKey],
    [
      `clocks: ${Math.round(ticks).toLocaleString('en')} calls, taken to be 0.25 s at 256 MB each`,
      ticks * (PRICES.invocation + TICK_GB_SECONDS * PRICES.gbSecond),
    ],
  ] as const;
  const total = rows.reduce((sum, [, amount]) => sum + amount, 0);
  return `## An idle stage

A month, counted in the templates of the stage \`prod\` (\`stages/prod.ts\`). Storage of tables, blobs, images and logs, secrets that users
store (below), and what a stage file asks for in addition (idle tasks, firewall, endpoints, NAT, load balancers of services) come on top.

| what | a month |
| --- | --: |
${[...rows, ['**together**', total] as const].map(([what, amount]) => `| ${what} | ${money(amount)} |`).join('\n')}

## Secrets of workspaces

What secrets cost in a month in which nobody uses them, by the [place](secrets-on-aws.md) that the stage chooses. The KMS key is the one listed above; a stage
has it in either case. In use, an envelope costs a request to KMS in five minutes for each process that opens it, ${money(PRICES.kmsRequest * MILLION)} a million, and Secrets Manager
a request a minute, ${money(PRICES.secretRequest * MILLION)} a million. A call reads the vault's two items of the table \`main\`, or its stamp in \`counters\`. The signing secret of a workspace
is in a vault of its own, which costs as much again.

| what | a month |
| --- | --: |
| workspaces with secrets, ${WORKSPACES.toLocaleString('en')}, idle, in Secrets Manager | ${money(WORKSPACES * PRICES.secret)} |
| workspaces with secrets, ${WORKSPACES.toLocaleString('en')}, idle, as envelopes | ${money(PRICES.kmsKey + WORKSPACES * VAULT_GB * PRICES.tableGb)} |
`;
}
