import * as z from 'zod';
import {
  CORE_SETTINGS,
  type Environment,
  listOf,
  parseSettings,
  type Settings,
  setting,
  type ValuesOf,
} from '#core/base/config.ts';

/** Settings of the AWS host only. */
export const AWS_SETTINGS = {
  functionPrefix: setting(
    'PLATFORM_FUNCTION_PREFIX',
    () => z.string().default(''),
    'Prefix of the names of Lambda functions, for functions that invoke others.',
  ),
  frontToken: setting(
    'PLATFORM_FRONT_TOKEN',
    () => z.string().optional(),
    'Token by which CloudFront is recognized: its requests count against the address of its client. Without it, the address of the sender counts.',
  ),
  gatewayToken: setting(
    'PLATFORM_GATEWAY_TOKEN',
    () => z.string().optional(),
    'Token by which the server of calls recognizes API Gateway. It refuses all other requests.',
  ),
  callFunction: setting(
    'PLATFORM_CALL_FUNCTION',
    () => z.string().default(''),
    'Function, with its version, to which the server of calls passes calls that do not wait for their result.',
  ),
  hostedSandbox: setting(
    'PLATFORM_HOSTED_SANDBOX',
    () => z.enum(['none', 'fargate', 'microvm']).default('none'),
    'Sandboxes for programs: ECS tasks on Fargate, Lambda MicroVMs, or none; then programs cannot be called.',
  ),
  sandboxReuse: setting(
    'PLATFORM_SANDBOX_REUSE',
    () => z.enum(['same', 'never']).default('same'),
    'Whether a Fargate task serves further runs of the `same` kind (docs/sandbox.md), or is used only once.',
  ),
  sandboxSpot: setting(
    'PLATFORM_SANDBOX_SPOT',
    () => z.enum(['retried', 'never']).default('never'),
    'Whether asynchronous runs that may be `retried` (docs/sandbox.md) use Fargate Spot, or `never`.',
  ),
  programMemoryMb: setting(
    'PLATFORM_PROGRAM_MEMORY_MB',
    () => z.coerce.number().int().positive().optional(),
    'Memory of the Lambda function for short programs (docs/sandbox.md). Without it, the stage has none.',
  ),
  microvmImage: setting(
    'PLATFORM_MICROVM_IMAGE',
    () => z.string().default(''),
    'ARN of the image that MicroVMs are started from.',
  ),
  launchesPerSecond: setting(
    'PLATFORM_MICROVM_RATE',
    () => z.coerce.number().int().min(1).max(100).default(5),
    'Number of MicroVMs started per second, by all functions together. Further programs are queued.',
  ),
  poolIdle: setting(
    'PLATFORM_POOL_IDLE',
    () => z.coerce.number().int().min(0).default(0),
    'Number of idle tasks kept ready. Demand raises it for five minutes.',
  ),
  poolMax: setting(
    'PLATFORM_POOL_MAX',
    () => z.coerce.number().int().min(1).default(20),
    'Maximum number of tasks, idle or not. A quarter of them is reserved for sub-calls and installations.',
  ),
  poolStartMs: setting(
    'PLATFORM_POOL_START_SECONDS',
    () =>
      z.coerce
        .number()
        .positive()
        .default(60)
        .transform((seconds) => seconds * 1000),
    'Time that a task takes to start, in seconds. A call that would wait longer than half of its time limit is rejected at once.',
  ),
  emptyLayer: setting(
    'PLATFORM_EMPTY_LAYER',
    () => z.string().default(''),
    'ARN of the layer of functions whose compile cache could not be made.',
  ),
  ecsCluster: setting('PLATFORM_ECS_CLUSTER', () => z.string().default(''), 'Cluster of the tasks.'),
  ecsTaskDefinition: setting(
    'PLATFORM_ECS_TASK_DEFINITION',
    () => z.string().default(''),
    'ARN of the revision that tasks are started from. Idle tasks of other revisions are replaced.',
  ),
  ecsSubnets: setting(
    'PLATFORM_ECS_SUBNETS',
    () => z.string().default('').transform(listOf),
    'Comma-separated ids of the subnets of the tasks.',
  ),
  ecsSecurityGroup: setting(
    'PLATFORM_ECS_SECURITY_GROUP',
    () => z.string().default(''),
    'Id of the security group of the tasks.',
  ),
  ecsPublicIp: setting(
    'PLATFORM_ECS_PUBLIC_IP',
    () =>
      z
        .enum(['true', 'false'])
        .default('true')
        .transform((text) => text === 'true'),
    'Whether each task gets a public address, which a network without NAT needs.',
  ),
  services: setting(
    'PLATFORM_SERVICES',
    () => z.string().optional(),
    'Where always-on services run and how they are reached, as JSON (`aws/services/settings.ts`). Only the function that orders services has it.',
  ),
  serviceLogs: setting(
    'PLATFORM_SERVICES_LOGS',
    () => z.string().optional(),
    'Location of the logs of services, as JSON. Without it, the platform has no services.',
  ),
  timerGroup: setting(
    'PLATFORM_TIMER_GROUP',
    () => z.string().default(''),
    'Group of the EventBridge schedules that wake the platform.',
  ),
  timerQueueArn: setting(
    'PLATFORM_TIMER_QUEUE_ARN',
    () => z.string().default(''),
    'ARN of the queue that those schedules send to.',
  ),
  timerDeadQueueArn: setting(
    'PLATFORM_TIMER_DEAD_QUEUE_ARN',
    () => z.string().default(''),
    'ARN of the queue for messages that could not be sent.',
  ),
  timerRoleArn: setting(
    'PLATFORM_TIMER_ROLE_ARN',
    () => z.string().default(''),
    'ARN of the role that those schedules send with.',
  ),
  sumsDeadQueue: setting(
    'PLATFORM_SUMS_DEAD_QUEUE',
    () => z.string().default(''),
    'Name of the queue for ended runs whose usage could not be counted.',
  ),
  tablePrefix: setting(
    'PLATFORM_TABLE_PREFIX',
    () => z.string().default(''),
    'Prefix of the DynamoDB table names; `main`, `runs` or `counters` follows it.',
  ),
  bucket: setting('PLATFORM_BUCKET', () => z.string().default(''), 'S3 bucket of bundles, layers and large bodies.'),
  mailFrom: setting(
    'PLATFORM_MAIL_FROM',
    () => z.email().optional(),
    'Address that SES sends invitations from, set from `mailFrom` of the stage. Without it, the inviter must share the link.',
  ),
  stripeSecret: setting(
    'PLATFORM_STRIPE_SECRET',
    () => z.string().optional(),
    "Name of the secret in Secrets Manager with Stripe's key and signing secret (docs/billing.md), set from `stripe` of the stage. Without it, users cannot buy credits.",
  ),
  oidcSecret: setting(
    'PLATFORM_OIDC_SECRET',
    () => z.string().optional(),
    "Name of the secret in Secrets Manager with the platform's secret at the OpenID provider (docs/sign-in.md), set from `oidc` of the stage. Without it, sign-in with a provider is disabled.",
  ),
  operatorSecret: setting(
    'PLATFORM_OPERATOR_SECRET',
    () => z.string().optional(),
    "Name of the secret in Secrets Manager with the operator's key (docs/billing.md), set from `operator` of the stage. Without it, the API rejects requests of an operator.",
  ),
  cardKeySecret: setting(
    'PLATFORM_A2A_SECRET',
    () => z.string().optional(),
    'Name of the secret in Secrets Manager with the key that signs A2A cards (docs/a2a.md#signed-cards), set from `a2a` of the stage.',
  ),
  operatorTelemetry: setting(
    'PLATFORM_OPERATOR_TELEMETRY',
    () => z.string().optional(),
    "The operator's collector of spans, as JSON (`aws/operator-telemetry.ts`), set from `telemetry` of the stage. Only the functions that note and send spans have it.",
  ),
  secrets: setting(
    'PLATFORM_SECRETS',
    () => z.enum(['secrets-manager', 'envelope', 'both']).default('secrets-manager'),
    'Where the secrets of workspaces are, set from `secrets` of the stage (docs/secrets-on-aws.md).',
  ),
  secretPrefix: setting(
    'PLATFORM_SECRET_PREFIX',
    () => z.string().default(''),
    'Prefix of Secrets Manager names; a slash and the workspace id follow it. Also part of the encryption context of data keys.',
  ),
  secretKey: setting(
    'PLATFORM_SECRET_KEY',
    () => z.string().optional(),
    'ARN of the KMS key of new vaults, set from `keyArn` of the stage. Without it, the key of Secrets Manager encrypts them.',
  ),
  dataKey: setting(
    'PLATFORM_DATA_KEY',
    () => z.string().optional(),
    'KMS key that seals data keys: the ARN in `keyArn` of the stage, otherwise the alias of the key that the stack `data` creates. Set where functions run agents, or use sealed secrets.',
  ),
} satisfies Settings;

const ALL_SETTINGS = { ...CORE_SETTINGS, ...AWS_SETTINGS };

/** Core's settings plus those of the AWS host. */
export interface AwsConfig extends ValuesOf<typeof ALL_SETTINGS> {}

/** Lambda ends a function after 900 s: what packing and starting leave of it. */
const MAX_INSTALL_MS = 700_000;

/** Throws as `parseSettings` does. */
export function parseAwsConfig(environment: Environment): AwsConfig {
  const config = parseSettings(ALL_SETTINGS, environment);
  return { ...config, installTimeoutMs: Math.min(config.installTimeoutMs, MAX_INSTALL_MS) };
}
