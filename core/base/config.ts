import * as z from 'zod';
import { PLAN_NAMES, plansSchema } from './plans.ts';
import { isReservedSlug } from './reserved-slugs.ts';

const MB = 1024 * 1024;
const megabytes = () => z.coerce.number().positive();
const listOf = (text: string): string[] =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
const withoutSlash = (url: string): string => url.replace(/\/+$/, '');
const address = () => z.url().transform(withoutSlash);
const slug = () => z.string().regex(/^[a-z0-9][a-z0-9-]*$/, 'must be lower-case letters, digits and hyphens');

/** A setting: its variable, what it may be, and the sentence that `docs/settings.md` shows. */
interface Setting<Schema extends z.ZodType> {
  readonly variable: string;
  /** Made when it is needed: all of them were a fifth of a Lambda function's cold start. */
  readonly schema: () => Schema;
  readonly host: 'both' | 'local' | 'aws';
  readonly about: string;
}
const setting = <Schema extends z.ZodType>(
  host: Setting<Schema>['host'],
  variable: string,
  schema: () => Schema,
  about: string,
): Setting<Schema> => ({ host, variable, schema, about });

/** Every setting of the platform; nothing else reads the environment. On AWS the stacks set them from the stage file. */
export const SETTINGS = {
  workspaceSlug: setting(
    'both',
    'PLATFORM_WORKSPACE',
    () =>
      slug()
        .refine((text) => !isReservedSlug(text), 'is reserved for paths of the API')
        .default('main'),
    "Slug of the first workspace, the `org` in its agents' addresses. Read at the first start only.",
  ),
  ownerEmail: setting(
    'both',
    'PLATFORM_OWNER_EMAIL',
    () => z.email().default('owner@example.com'),
    "E-mail address of the first workspace's owner. Read at the first start only.",
  ),
  logLevel: setting(
    'both',
    'PLATFORM_LOG_LEVEL',
    () => z.enum(['debug', 'info', 'warn', 'error']).default('info'),
    'The least severe log lines to write. `debug` has a line per request.',
  ),
  baseUrl: setting(
    'both',
    'PLATFORM_BASE_URL',
    () => address().optional(),
    'Address under which clients reach the platform. Locally by default `http://<host>:<port>`.',
  ),
  maxBundleBytes: setting(
    'both',
    'PLATFORM_MAX_BUNDLE_MB',
    () =>
      megabytes()
        .default(25)
        .transform((mb) => mb * MB),
    'Largest code bundle (zip) that may be uploaded, in MB.',
  ),
  maxCallBodyBytes: setting(
    'both',
    'PLATFORM_MAX_CALL_BODY_MB',
    () =>
      megabytes()
        .default(25)
        .transform((mb) => mb * MB),
    'Largest body of an agent call, files included, in MB.',
  ),
  maxDirectBodyBytes: setting(
    'both',
    'PLATFORM_MAX_DIRECT_BODY_MB',
    () =>
      megabytes()
        .transform((mb) => mb * MB)
        .optional(),
    'Largest body that a request itself may bring, in MB, where its way is narrower than the limits above: what is larger is uploaded ahead of it (docs/calls.md). On AWS the stacks set 4.',
  ),
  sandboxEgress: setting(
    'both',
    'PLATFORM_SANDBOX_EGRESS',
    () =>
      z
        .string()
        .default('open')
        .transform((text) => (text === 'open' || text === 'none' ? text : listOf(text))),
    'What running agents may connect to: `open` (any public address), `none` (agents with dependencies still reach the platform), or a comma-separated list of host names (`*.example.org` for subdomains). Private, loopback and metadata addresses are never reachable.',
  ),
  sandboxMemoryBytes: setting(
    'both',
    'PLATFORM_SANDBOX_MEMORY_MB',
    () =>
      megabytes()
        .default(512)
        .transform((mb) => mb * MB),
    'Memory of one run, its whole process tree and temporary files together, in MB.',
  ),
  sandboxDiskBytes: setting(
    'both',
    'PLATFORM_SANDBOX_DISK_MB',
    () =>
      megabytes()
        .default(256)
        .transform((mb) => mb * MB),
    'Files that one run may write, in MB.',
  ),
  sandboxProcesses: setting(
    'both',
    'PLATFORM_SANDBOX_PROCESSES',
    () => z.coerce.number().int().positive().default(128),
    'Processes and threads of one run.',
  ),
  installTimeoutMs: setting(
    'both',
    'PLATFORM_INSTALL_TIMEOUT_SECONDS',
    () =>
      z.coerce
        .number()
        .int()
        .positive()
        .default(240)
        .transform((seconds) => seconds * 1000),
    "Longest installation of an uploaded bundle's dependencies, in seconds.",
  ),

  runRetentionDays: setting(
    'both',
    'PLATFORM_RUN_RETENTION_DAYS',
    () => z.coerce.number().int().positive().default(30),
    'How long the record of a run is kept, in days.',
  ),

  defaultPlan: setting(
    'both',
    'PLATFORM_DEFAULT_PLAN',
    () => z.enum(PLAN_NAMES).default('enterprise'),
    'The plan of workspaces that were given no other: `free`, `pro`, `team` or `enterprise` (docs/limits.md).',
  ),
  plans: setting(
    'both',
    'PLATFORM_PLANS',
    () => plansSchema(),
    'JSON of what plans allow, as far as it is to be other than by default: `{"free": {"daily_calls": 2000}}` (docs/limits.md).',
  ),
  addressRequestsPerMinute: setting(
    'both',
    'PLATFORM_ADDRESS_LIMIT',
    () => z.coerce.number().int().positive().default(120),
    'Requests a minute that one address may send without a valid API key.',
  ),

  installHosts: setting(
    'both',
    'PLATFORM_INSTALL_HOSTS',
    () => z.string().default('registry.npmjs.org,pypi.org,files.pythonhosted.org').transform(listOf),
    'Hosts of package registries: installations reach them whatever `PLATFORM_SANDBOX_EGRESS` says, and even where they resolve to a private address, as mirrors do.',
  ),
  outboundHosts: setting(
    'both',
    'PLATFORM_OUTBOUND_HOSTS',
    () => z.string().default('').transform(listOf),
    'Hosts of your own network that alerts may be posted to: they may have private addresses, any port, and plain http. Names, `*.example.org` for subdomains, or addresses such as `127.0.0.1`. Everything else must be https at a public address.',
  ),
  pipIndexUrl: setting(
    'both',
    'PLATFORM_PIP_INDEX_URL',
    () => z.url().optional(),
    'Package index for pip, instead of its own default. Its host must be in `PLATFORM_INSTALL_HOSTS` if it is not public.',
  ),
  npmRegistry: setting(
    'both',
    'PLATFORM_NPM_REGISTRY',
    () => z.url().optional(),
    'Registry for npm, instead of its own default. Its host must be in `PLATFORM_INSTALL_HOSTS` if it is not public.',
  ),

  anthropicUrl: setting(
    'both',
    'PLATFORM_ANTHROPIC_URL',
    () => z.url().default('https://api.anthropic.com/v1').transform(withoutSlash),
    'Where the language models of Anthropic are asked: another address for a proxy of yours.',
  ),
  openaiUrl: setting(
    'both',
    'PLATFORM_OPENAI_URL',
    () => z.url().default('https://api.openai.com/v1').transform(withoutSlash),
    'The same for OpenAI (its Responses API).',
  ),
  geminiUrl: setting(
    'both',
    'PLATFORM_GEMINI_URL',
    () => z.url().default('https://generativelanguage.googleapis.com/v1beta').transform(withoutSlash),
    'The same for Google.',
  ),
  ollamaUrl: setting(
    'both',
    'PLATFORM_OLLAMA_URL',
    () => address().optional(),
    "A model server of your own that speaks OpenAI's chat completions, such as `http://127.0.0.1:11434/v1`. With it, agents may use the provider `ollama`, without a key.",
  ),

  host: setting(
    'local',
    'PLATFORM_HOST',
    () => z.string().default('127.0.0.1'),
    'Address to listen on. Anything but loopback needs a TLS-terminating proxy in front.',
  ),
  port: setting(
    'local',
    'PLATFORM_PORT',
    () => z.coerce.number().int().min(0).max(65535).default(4280),
    'Port to listen on; 0 takes a free one.',
  ),
  trustProxy: setting(
    'local',
    'PLATFORM_TRUST_PROXY',
    () => z.stringbool().default(false),
    "Whether the last address in `X-Forwarded-For` is the client's: `true` behind a proxy of yours, and only there, as clients can send that header, too.",
  ),
  maxSandboxes: setting(
    'local',
    'PLATFORM_MAX_SANDBOXES',
    () => z.coerce.number().int().min(2).max(1000).optional(),
    'Sandboxes that run at the same moment; further calls wait for their turn, workspace by workspace. By default as many as memory and processors suggest.',
  ),
  dataFolder: setting(
    'local',
    'PLATFORM_DATA',
    () => z.string().default('.data'),
    'Folder for the database, bundles and the encrypted vault.',
  ),
  vaultKeyFile: setting(
    'local',
    'PLATFORM_VAULT_KEY_FILE',
    () => z.string().optional(),
    'File of the key that encrypts the vault, made at first use. By default `vault.key` in the data folder; elsewhere, a copy of the data folder does not hold the key to its secrets.',
  ),
  sandboxKind: setting(
    'local',
    'PLATFORM_SANDBOX',
    () => z.enum(['auto', 'bubblewrap', 'unshare', 'unsandboxed']).default('auto'),
    "How runs are isolated. `auto` takes unshare where it works, else bubblewrap. `unsandboxed` runs agents as ordinary processes of the platform's user: only for code that you would run yourself.",
  ),
  sandboxPrestart: setting(
    'local',
    'PLATFORM_SANDBOX_PRESTART',
    () => z.coerce.number().int().min(0).max(64).default(4),
    'Sandboxes kept started ahead, so that a call does not wait for one.',
  ),

  functionPrefix: setting(
    'aws',
    'PLATFORM_FUNCTION_PREFIX',
    () => z.string().default(''),
    'Lambda function names are this and what they do, for functions that call others.',
  ),
  hostedSandbox: setting(
    'aws',
    'PLATFORM_HOSTED_SANDBOX',
    () => z.enum(['none', 'fargate', 'microvm']).default('none'),
    'What programs run in: tasks of ECS on Fargate, Lambda MicroVMs, or nothing, and then no program can be called.',
  ),
  microvmImage: setting(
    'aws',
    'PLATFORM_MICROVM_IMAGE',
    () => z.string().default(''),
    'ARN of the image that MicroVMs are started from.',
  ),
  poolIdle: setting(
    'aws',
    'PLATFORM_POOL_IDLE',
    () => z.coerce.number().int().min(0).default(0),
    'Tasks kept idle for calls to come. Demand adds to them for five minutes.',
  ),
  poolMost: setting(
    'aws',
    'PLATFORM_POOL_MOST',
    () => z.coerce.number().int().min(1).default(20),
    'Tasks at once, whatever they do. A quarter of them is kept for sub-calls and installations.',
  ),
  poolStartMs: setting(
    'aws',
    'PLATFORM_POOL_START_SECONDS',
    () =>
      z.coerce
        .number()
        .positive()
        .default(60)
        .transform((seconds) => seconds * 1000),
    'How long a task takes to start, in seconds. A call that would wait longer than half of its time is refused at once.',
  ),
  ecsCluster: setting('aws', 'PLATFORM_ECS_CLUSTER', () => z.string().default(''), 'Cluster of the tasks.'),
  ecsTaskDefinition: setting(
    'aws',
    'PLATFORM_ECS_TASK_DEFINITION',
    () => z.string().default(''),
    'ARN of the revision that tasks are started from; idle ones of another are replaced.',
  ),
  ecsSubnets: setting(
    'aws',
    'PLATFORM_ECS_SUBNETS',
    () => z.string().default('').transform(listOf),
    'Ids of the subnets of the tasks, with commas between.',
  ),
  ecsSecurityGroup: setting(
    'aws',
    'PLATFORM_ECS_SECURITY_GROUP',
    () => z.string().default(''),
    'Id of the security group of the tasks.',
  ),
  timerGroup: setting(
    'aws',
    'PLATFORM_TIMER_GROUP',
    () => z.string().default(''),
    'Group of the EventBridge schedules that wake the platform.',
  ),
  timerQueueArn: setting(
    'aws',
    'PLATFORM_TIMER_QUEUE_ARN',
    () => z.string().default(''),
    'The queue that they send to.',
  ),
  timerDeadQueueArn: setting(
    'aws',
    'PLATFORM_TIMER_DEAD_QUEUE_ARN',
    () => z.string().default(''),
    'The queue for what they could not send.',
  ),
  timerRoleArn: setting('aws', 'PLATFORM_TIMER_ROLE_ARN', () => z.string().default(''), 'The role by which they send.'),
  tablePrefix: setting(
    'aws',
    'PLATFORM_TABLE_PREFIX',
    () => z.string().default(''),
    'DynamoDB table names are this and `main`, `runs`, `counters`.',
  ),
  bucket: setting(
    'aws',
    'PLATFORM_BUCKET',
    () => z.string().default(''),
    'S3 bucket of bundles, layers and large bodies.',
  ),
  mailFrom: setting(
    'aws',
    'PLATFORM_MAIL_FROM',
    () => z.email().optional(),
    'The address that invitations are sent from by SES, set from `mailFrom` of the stage. Without one, whoever invites hands the link over.',
  ),
  secretPrefix: setting(
    'aws',
    'PLATFORM_SECRET_PREFIX',
    () => z.string().default(''),
    'Secrets Manager names are this, a slash and the workspace id.',
  ),
} satisfies Record<string, Setting<z.ZodType>>;

export type Config = {
  readonly [Name in keyof typeof SETTINGS]: z.output<ReturnType<(typeof SETTINGS)[Name]['schema']>>;
};

/**
 * Throws one error that names every wrong variable, what it was and what it may be. Empty variables count as unset: a
 * default, which is never wrong, is made when it is first read.
 */
export function parseConfig(environment: Readonly<Record<string, string | undefined>>): Config {
  const problems: string[] = [];
  const config = {};
  for (const [name, { variable, schema }] of Object.entries(SETTINGS)) {
    const given = environment[variable];
    if (!given) {
      defineLazily(config, name, () => schema().parse(undefined));
      continue;
    }
    const { data: value, error } = schema().safeParse(given);
    if (error) problems.push(`${variable}="${given}": ${error.issues.map(({ message }) => message).join(', ')}`);
    Object.assign(config, { [name]: value });
  }
  if (problems.length > 0) throw new Error(`Wrong settings:\n  ${problems.join('\n  ')}\nSee docs/settings.md.`);
  return config as Config;
}

function defineLazily(object: object, name: string, make: () => unknown): void {
  Object.defineProperty(object, name, {
    enumerable: true,
    configurable: true,
    get() {
      const value = make();
      Object.defineProperty(object, name, { value, enumerable: true });
      return value;
    },
  });
}
