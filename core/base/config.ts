import * as z from 'zod';
import { jsonText } from './json-text.ts';
import { PLAN_NAMES, plansSchema } from './plans.ts';
import { type PortRange, readPortRange } from './port-ranges.ts';
import { privateRangeProblem } from './private-ranges.ts';
import { isReservedSlug } from './reserved-slugs.ts';
import { withoutEnd } from './text.ts';
import { transportsSchema } from './transports.ts';

const MB = 1024 * 1024;
const megabytes = () => z.coerce.number().positive();
/** Splits a comma-separated list. */
export const listOf = (text: string): string[] =>
  text
    .split(',')
    .map((part) => part.trim())
    .filter((part) => part !== '');
const withoutSlash = (url: string): string => withoutEnd(url, '/');
const target = () =>
  z.string().regex(/^(\[[\da-f:.]+\]|[\w.*-]+)(:\d{1,5})?$/i, 'must be host or host:port, without a scheme');
/** List prices of one search, in US dollars, of November 2026. */
const SEARCH_PRICES = { brave: 0.005, tavily: 0.008 };
const searchPrice = () => z.number().min(0).max(10);
const address = () => z.url().transform(withoutSlash);
const slug = () => z.string().regex(/^[a-z0-9][a-z0-9-]*$/, 'must be lower-case letters, digits and hyphens');

/** A setting: its environment variable, its schema, and the sentence that `docs/settings.md` shows. */
interface Setting<Schema extends z.ZodType> {
  readonly variable: string;
  /** Built on first use: building all of them took a fifth of a Lambda function's cold start. */
  readonly schema: () => Schema;
  readonly about: string;
}
export type Settings = Readonly<Record<string, Setting<z.ZodType>>>;

export const setting = <Schema extends z.ZodType>(
  variable: string,
  schema: () => Schema,
  about: string,
): Setting<Schema> => ({ variable, schema, about });

/**
 * Settings that both hosts have. Those of one host are in `local/config.ts` and `aws/config.ts`; nothing else reads the
 * environment. On AWS the stacks set the variables, from the stage file.
 */
export const CORE_SETTINGS = {
  workspaceSlug: setting(
    'PLATFORM_WORKSPACE',
    () =>
      slug()
        .refine((text) => !isReservedSlug(text), 'is reserved for paths of the API')
        .default('main'),
    "Slug of the first workspace, the `org` in its agents' addresses. Read at the first start only.",
  ),
  ownerEmail: setting(
    'PLATFORM_OWNER_EMAIL',
    () => z.email().default('owner@example.com'),
    "E-mail address of the first workspace's owner. Read at the first start only.",
  ),
  logLevel: setting(
    'PLATFORM_LOG_LEVEL',
    () => z.enum(['debug', 'info', 'warn', 'error']).default('info'),
    'Minimum severity of log lines. `debug` has a line per request.',
  ),
  cell: setting(
    'PLATFORM_CELL',
    () =>
      z
        .string()
        .regex(/^[a-z]$/, 'must be one letter, a to z')
        .default('a'),
    'Letter of this platform among several behind one address (docs/cells.md). New keys, tokens, webhook addresses and names of services contain it. On AWS the stacks set `cell` of the stage file.',
  ),
  baseUrl: setting(
    'PLATFORM_BASE_URL',
    () => address().optional(),
    'Address under which clients reach the platform. Locally by default `http://<host>:<port>`.',
  ),
  callUrl: setting(
    'PLATFORM_CALL_URL',
    () => address().optional(),
    'Address of the API for programs: webhooks, agents, services and the OpenAPI document name it. Set it if a proxy in front of `PLATFORM_BASE_URL`, such as a CDN, cuts long requests. By default `PLATFORM_BASE_URL`.',
  ),
  dashboardUrl: setting(
    'PLATFORM_DASHBOARD_URL',
    () => address().optional(),
    'Address of the dashboard, on the same origin. Locally by default `<PLATFORM_BASE_URL>/dashboard`. Without it, sign-in links lead to a plain page.',
  ),
  maxBundleBytes: setting(
    'PLATFORM_MAX_BUNDLE_MB',
    () =>
      megabytes()
        .default(25)
        .transform((mb) => mb * MB),
    'Largest code bundle (zip) that may be uploaded, in MB.',
  ),
  maxCallBodyBytes: setting(
    'PLATFORM_MAX_CALL_BODY_MB',
    () =>
      megabytes()
        .default(25)
        .transform((mb) => mb * MB),
    'Largest body of an agent call, files included, in MB.',
  ),
  maxDirectBodyBytes: setting(
    'PLATFORM_MAX_DIRECT_BODY_MB',
    () =>
      megabytes()
        .transform((mb) => mb * MB)
        .optional(),
    'Largest body of one request, in MB, if the host accepts less than the limits above. Larger bodies are uploaded first (docs/calls.md). On AWS the stacks set 4.',
  ),
  sandboxEgress: setting(
    'PLATFORM_SANDBOX_EGRESS',
    () =>
      z
        .string()
        .default('open')
        .transform((text) => (text === 'open' || text === 'none' ? text : listOf(text))),
    'Destinations that running agents may connect to: `open` (any public address), `none` (agents with dependencies still reach the platform), or a comma-separated list of host names (`*.example.org` for subdomains). Private, loopback and metadata addresses are never reachable. MCP servers of loops must be at these hosts, too.',
  ),
  egressPorts: setting(
    'PLATFORM_EGRESS_PORTS',
    () =>
      z
        .string()
        .default('1-65535')
        .transform((text, context) =>
          (text === 'none' ? [] : listOf(text)).flatMap((part): PortRange[] => {
            const range = readPortRange(part);
            if (range !== undefined) return [range];
            context.addIssue(`${part} must be a port or a range of ports, such as 5432`);
            return [];
          }),
        ),
    'Ports that manifests may name in `egress`, such as `5432,6379,27017-27019`, or `none` (docs/egress.md). On AWS the stacks set those that `egressPorts` in the stage file opens.',
  ),
  egressPrivateRanges: setting(
    'PLATFORM_EGRESS_PRIVATE_RANGES',
    () =>
      z
        .string()
        .default('')
        .transform(listOf)
        .pipe(
          z.array(
            z.string().superRefine((range, context) => {
              const problem = privateRangeProblem(range);
              if (problem !== undefined) context.addIssue(`${range} ${problem}`);
            }),
          ),
        ),
    'Ranges of private addresses that `egress` in manifests may lead to, such as `10.20.0.0/16,fd12:3456::/48` (docs/egress.md). Loopback, link-local and metadata addresses are never reachable. On AWS the stacks set `egressPrivateRanges` of the stage file.',
  ),
  sandboxMemoryBytes: setting(
    'PLATFORM_SANDBOX_MEMORY_MB',
    () =>
      megabytes()
        .default(512)
        .transform((mb) => mb * MB),
    'Memory of one run, its whole process tree and temporary files together, in MB.',
  ),
  sandboxDiskBytes: setting(
    'PLATFORM_SANDBOX_DISK_MB',
    () =>
      megabytes()
        .default(256)
        .transform((mb) => mb * MB),
    'Files that one run may write, in MB.',
  ),
  sandboxProcesses: setting(
    'PLATFORM_SANDBOX_PROCESSES',
    () => z.coerce.number().int().positive().default(128),
    'Maximum number of processes and threads of one run.',
  ),
  installTimeoutMs: setting(
    'PLATFORM_INSTALL_TIMEOUT_SECONDS',
    () =>
      z.coerce
        .number()
        .int()
        .positive()
        .default(900)
        .transform((seconds) => seconds * 1000),
    "Time limit for installing an uploaded bundle's dependencies, in seconds. Packing the result has three minutes of its own. On AWS at most 700, because one Lambda function of 900 s does both.",
  ),

  runRetentionDays: setting(
    'PLATFORM_RUN_RETENTION_DAYS',
    () => z.coerce.number().int().positive().default(30),
    'Days that the record of a run is kept.',
  ),
  auditRetentionDays: setting(
    'PLATFORM_AUDIT_RETENTION_DAYS',
    () => z.coerce.number().int().positive().max(36_500).default(400),
    'Days that an entry of the audit log is kept.',
  ),

  defaultPlan: setting(
    'PLATFORM_DEFAULT_PLAN',
    () => z.enum(PLAN_NAMES).default('enterprise'),
    'Plan of workspaces that have no plan of their own: `free`, `pro`, `team` or `enterprise` (docs/limits.md).',
  ),
  plans: setting(
    'PLATFORM_PLANS',
    () => plansSchema(),
    'JSON overrides of the default plans: `{"free": {"daily_calls": 2000}}` (docs/limits.md).',
  ),
  feePercent: setting(
    'PLATFORM_FEE_PERCENT',
    () => z.coerce.number().min(0).max(100).default(0),
    'Share of the price of a paid call that the platform keeps, in percent; the author earns the rest (docs/billing.md).',
  ),
  computeUsdPerSecond: setting(
    'PLATFORM_COMPUTE_USD_PER_SECOND',
    () => z.coerce.number().min(0).max(1).default(0),
    'Cost of a second of a sandbox or service instance, in US dollars; budgets count it (docs/budgets.md).',
  ),
  addressRequestsPerMinute: setting(
    'PLATFORM_ADDRESS_LIMIT',
    () => z.coerce.number().int().positive().default(120),
    'Maximum requests per minute from one address without a valid API key.',
  ),

  installHosts: setting(
    'PLATFORM_INSTALL_HOSTS',
    () =>
      z
        .string()
        .default(
          'registry.npmjs.org,pypi.org,files.pythonhosted.org,download.pytorch.org,download-r2.pytorch.org,releases.astral.sh',
        )
        .transform(listOf)
        .pipe(z.array(target())),
    'Package registries, and the hosts that they redirect to: `host:port`, `*.example.org:443` for subdomains; without a port, 443. Installations reach exactly these, in addition to what `PLATFORM_SANDBOX_EGRESS` allows, even at private addresses, as mirrors have.',
  ),
  outboundHosts: setting(
    'PLATFORM_OUTBOUND_HOSTS',
    () => z.string().default('').transform(listOf),
    'Hosts of your own network that alerts may be posted to, and where MCP servers of loops may be: they may have private addresses, any port, and plain http. Names, `*.example.org` for subdomains, or addresses such as `127.0.0.1`. Everything else must be https at a public address.',
  ),
  pipIndexUrl: setting(
    'PLATFORM_PIP_INDEX_URL',
    () => z.url().optional(),
    'Package index for pip, instead of its own default. Installations reach its host at its port. If its files are elsewhere, add that host to `PLATFORM_INSTALL_HOSTS`.',
  ),
  npmRegistry: setting(
    'PLATFORM_NPM_REGISTRY',
    () => z.url().optional(),
    'Registry for npm, instead of its own default. Installations reach its host at its port. If its files are elsewhere, add that host to `PLATFORM_INSTALL_HOSTS`.',
  ),

  pythonDownloads: setting(
    'PLATFORM_PYTHON_DOWNLOADS',
    () => z.url().optional(),
    "Address of a list of builds of Python, for `environment.python_version`, in the format of uv's `UV_PYTHON_DOWNLOADS_JSON_URL`, instead of the list that uv knows. Installations reach its host at its port; add the hosts of the builds to `PLATFORM_INSTALL_HOSTS`.",
  ),

  anthropicUrl: setting(
    'PLATFORM_ANTHROPIC_URL',
    () => z.url().default('https://api.anthropic.com/v1').transform(withoutSlash),
    "Base URL of Anthropic's API. Set it to use a proxy.",
  ),
  openaiUrl: setting(
    'PLATFORM_OPENAI_URL',
    () => z.url().default('https://api.openai.com/v1').transform(withoutSlash),
    "Base URL of OpenAI's API (the Responses API).",
  ),
  geminiUrl: setting(
    'PLATFORM_GEMINI_URL',
    () => z.url().default('https://generativelanguage.googleapis.com/v1beta').transform(withoutSlash),
    "Base URL of Google's API.",
  ),
  ollamaUrl: setting(
    'PLATFORM_OLLAMA_URL',
    () => address().optional(),
    "A model server of your own that speaks OpenAI's chat completions, such as `http://127.0.0.1:11434/v1`. With it, agents may use the provider `ollama`, without a key.",
  ),
  ollamaSchemas: setting(
    'PLATFORM_OLLAMA_SCHEMAS',
    () => z.stringbool().default(false),
    'Whether that server accepts a JSON Schema as `response_format` and enforces it, as vLLM, llama.cpp and Ollama do. Otherwise the schema of an output is part of the message.',
  ),
  transports: setting(
    'PLATFORM_TRANSPORTS',
    () => transportsSchema().optional(),
    'JSON: providers that are reached other than through their own API, and the names of their models there (docs/models.md). `anthropic` may go via `bedrock`, with the AWS credentials of the platform and without a key, `openai` via `azure`.',
  ),
  bedrockUrl: setting(
    'PLATFORM_BEDROCK_URL',
    () => address().optional(),
    'Endpoint of Amazon Bedrock, if it is not `https://bedrock-runtime.<region>.amazonaws.com`.',
  ),
  braveUrl: setting(
    'PLATFORM_BRAVE_URL',
    () => z.url().default('https://api.search.brave.com/res/v1').transform(withoutSlash),
    "Base URL of Brave's Search API, for the tool `web_search`. It follows the rules for outbound requests, and its host must be open by `PLATFORM_SANDBOX_EGRESS`.",
  ),
  tavilyUrl: setting(
    'PLATFORM_TAVILY_URL',
    () => z.url().default('https://api.tavily.com').transform(withoutSlash),
    "Base URL of Tavily's API, for the tool `web_search`, under the same rules.",
  ),
  searchPrices: setting(
    'PLATFORM_SEARCH_PRICES',
    () =>
      jsonText(() => z.strictObject({ brave: searchPrice().optional(), tavily: searchPrice().optional() }))
        .transform((prices) => ({ ...SEARCH_PRICES, ...prices }))
        .default(SEARCH_PRICES),
    'JSON: what one search costs, in US dollars, as your contract says. It counts in the costs of runs. By default the list prices `{"brave": 0.005, "tavily": 0.008}`.',
  ),
  stripeUrl: setting(
    'PLATFORM_STRIPE_URL',
    () =>
      address()
        .refine(
          (url) => new URL(url).pathname === '/',
          'must be an origin, such as http://127.0.0.1:12111, without a path',
        )
        .optional(),
    "Another server that speaks Stripe's API, such as a proxy or a test server, instead of `https://api.stripe.com`.",
  ),
  oidcIssuer: setting(
    'PLATFORM_OIDC_ISSUER',
    () => z.url({ protocol: /^https?$/ }).optional(),
    'Issuer of an OpenID provider that people sign in with, exactly as the provider writes it (docs/sign-in.md). It follows the rules for outbound requests: https at a public address, or a host of `PLATFORM_OUTBOUND_HOSTS`.',
  ),
  oidcClientId: setting('PLATFORM_OIDC_CLIENT_ID', () => z.string().optional(), 'Id of the platform at that provider.'),
  oidcDomains: setting(
    'PLATFORM_OIDC_DOMAINS',
    () =>
      z
        .string()
        .default('')
        .transform((text) => listOf(text.toLowerCase())),
    'Domains of the e-mail addresses that may sign in with it: `example.com,example.org`. By default all domains; users still need an invitation or an account.',
  ),
  models: setting(
    'PLATFORM_MODELS',
    () => z.string().optional(),
    'Your own table of models, which overrides the built-in one: new models, prices and limits without a new release (docs/models.md). The address of a JSON file, `https://...`, or locally its path, on AWS an object, `s3://bucket/key`. Read at the first use, then hourly.',
  ),
} satisfies Settings;

/** Values of a table of settings, as its schemas return them. */
export type ValuesOf<Table extends Settings> = {
  readonly [Name in keyof Table]: z.output<ReturnType<Table[Name]['schema']>>;
};
export interface Config extends ValuesOf<typeof CORE_SETTINGS> {}

/** Settings that both hosts have. Throws as {@link parseSettings} does. */
export const parseConfig = (environment: Environment): Config => parseSettings(CORE_SETTINGS, environment);

export type Environment = Readonly<Record<string, string | undefined>>;

/**
 * Reads a table of settings from environment variables. Throws one error that names every wrong variable, its value and
 * the values it may have. An empty variable counts as unset. A default is never wrong, so it is built on first use.
 */
export function parseSettings<Table extends Settings>(settings: Table, environment: Environment): ValuesOf<Table> {
  const problems: string[] = [];
  const config = {};
  for (const [name, { variable, schema }] of Object.entries(settings)) {
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
  return config as ValuesOf<Table>;
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
