import { hash } from 'node:crypto';
import * as z from 'zod';
import {
  CORE_SETTINGS,
  type Environment,
  parseSettings,
  type Settings,
  setting,
  type ValuesOf,
} from '#core/base/config.ts';
import { SAMPLERS } from '#core/base/samplers.ts';
import { withoutEnd } from '#core/base/text.ts';
import { OPERATOR_KEY, OPERATOR_KEY_RULE } from '#core/ports/operator-key.ts';

/** Settings of the local host only. */
export const LOCAL_SETTINGS = {
  host: setting(
    'PLATFORM_HOST',
    () => z.string().default('127.0.0.1'),
    'Address to listen on. Anything but loopback needs a TLS-terminating proxy in front.',
  ),
  port: setting(
    'PLATFORM_PORT',
    () => z.coerce.number().int().min(0).max(65535).default(4280),
    'Port to listen on; 0 selects a free one.',
  ),
  trustProxy: setting(
    'PLATFORM_TRUST_PROXY',
    () => z.stringbool().default(false),
    "Whether the last address in `X-Forwarded-For` is the client's. Set it to `true` only behind your own proxy: clients can send that header, too.",
  ),
  servicesDomain: setting(
    'PLATFORM_SERVICES_DOMAIN',
    () =>
      z
        .string()
        .regex(/^[a-z0-9-]+(\.[a-z0-9-]+)*$/, 'must be a domain in lower case, such as services.example.com')
        .default('localhost'),
    'Parent domain of all host names of services. Browsers and curl resolve `*.localhost` themselves; on a server, create a wildcard DNS record, and let the proxy forward the `Host` header.',
  ),
  ollamaAddress: setting(
    'PLATFORM_FIND_OLLAMA',
    () =>
      z
        .union([z.literal('off'), z.url({ protocol: /^https?$/ })])
        .default('http://127.0.0.1:11434')
        .transform((address) => withoutEnd(address, '/')),
    'Where the start looks for Ollama if `PLATFORM_OLLAMA_URL` is not set. If it answers, agents may use the provider `ollama` with its models; `off` does not look.',
  ),
  maxSandboxes: setting(
    'PLATFORM_MAX_SANDBOXES',
    () => z.coerce.number().int().min(2).max(1000).optional(),
    'Maximum number of concurrent sandboxes; further calls are queued fairly between workspaces. By default as many as memory and processors allow.',
  ),
  dataFolder: setting(
    'PLATFORM_DATA',
    () => z.string().default('.data'),
    'Folder for the database, bundles and the encrypted vault.',
  ),
  stripeKey: setting(
    'PLATFORM_STRIPE_KEY',
    () =>
      z
        .string()
        .regex(/^(sk|rk)_/, 'must be a secret or restricted key of Stripe: sk_... or rk_...')
        .optional(),
    'Stripe key for selling credits to users (docs/billing.md). Without it, users pay with test cards that take no money, on a page that only this machine can open.',
  ),
  stripeWebhookSecret: setting(
    'PLATFORM_STRIPE_WEBHOOK_SECRET',
    () => z.string().startsWith('whsec_').optional(),
    "Signing secret of Stripe's endpoint `<PLATFORM_BASE_URL>/webhooks/stripe`. Without it, a purchase is credited only when its buyer returns from Stripe, or within an hour.",
  ),
  oidcClientSecret: setting(
    'PLATFORM_OIDC_CLIENT_SECRET',
    () => z.string().optional(),
    'Client secret of the platform at the OpenID provider `PLATFORM_OIDC_ISSUER` (docs/sign-in.md).',
  ),
  operatorKeyHash: setting(
    'PLATFORM_OPERATOR_KEY',
    () =>
      z
        .string()
        .regex(OPERATOR_KEY, OPERATOR_KEY_RULE)
        .transform((key) => hash('sha256', key))
        .optional(),
    "The operator's key for setting plans and granting credits over the API (docs/billing.md): at least 32 characters, such as the output of `openssl rand -hex 32`. Without it, the API rejects such requests.",
  ),
  cardKeyFile: setting(
    'PLATFORM_A2A_KEY_FILE',
    () => z.string().optional(),
    'File with the private key, in PEM, that signs the A2A cards of agents (docs/a2a.md#signed-cards). Without it, cards have no signatures.',
  ),
  otlpEndpoint: setting(
    'OTEL_EXPORTER_OTLP_ENDPOINT',
    () => z.url({ protocol: /^https?$/ }).optional(),
    "Base address of the operator's OpenTelemetry collector, such as `http://127.0.0.1:4318`: spans of the runs of all workspaces, without contents, go to `/v1/traces`, metrics to `/v1/metrics` (docs/telemetry.md#for-operators).",
  ),
  otlpHeaders: setting(
    'OTEL_EXPORTER_OTLP_HEADERS',
    () => z.string().default(''),
    'Headers of these requests, as `name=value` separated by commas, with values percent-encoded. Kept secret.',
  ),
  otelServiceName: setting(
    'OTEL_SERVICE_NAME',
    () => z.string().default('agent-platform'),
    'The attribute `service.name` of what goes to `OTEL_EXPORTER_OTLP_ENDPOINT`.',
  ),
  otelResourceAttributes: setting(
    'OTEL_RESOURCE_ATTRIBUTES',
    () => z.string().default(''),
    'More attributes of the resource, as `name=value` separated by commas.',
  ),
  otelSampler: setting(
    'OTEL_TRACES_SAMPLER',
    () => z.enum(SAMPLERS).default('parentbased_always_on'),
    'Which traces are sent. `parentbased_...` does what the caller decided, if one began the trace.',
  ),
  otelSamplerArg: setting(
    'OTEL_TRACES_SAMPLER_ARG',
    () => z.coerce.number().min(0).max(1).default(1),
    'Part of the traces that the samplers with `traceidratio` send, from 0 to 1.',
  ),
  otelDisabled: setting(
    'OTEL_SDK_DISABLED',
    () => z.stringbool().default(false),
    'Whether nothing goes to `OTEL_EXPORTER_OTLP_ENDPOINT`.',
  ),
  minFreeBytes: setting(
    'PLATFORM_MIN_FREE_MB',
    () =>
      z.coerce
        .number()
        .min(0)
        .transform((mb) => mb * 1024 ** 2)
        .optional(),
    'Minimum free space on the disk of the data folder, in MB: below it, nothing new is stored (docs/limits.md). By default the larger of 1,000 MB and 2%, at most 10% of the disk; 0 disables the check.',
  ),
  vaultKeyFile: setting(
    'PLATFORM_VAULT_KEY_FILE',
    () => z.string().optional(),
    'File with the key that encrypts the vault, created on first use. By default `vault.key` in the data folder. Choose another folder to keep it out of copies of the data folder.',
  ),
  sandboxKind: setting(
    'PLATFORM_SANDBOX',
    () => z.enum(['auto', 'bubblewrap', 'unshare', 'unsandboxed']).default('auto'),
    "How runs are isolated. `auto` uses unshare if it works, otherwise bubblewrap. `unsandboxed` runs agents as ordinary processes of the platform's user: use it only for code that you trust.",
  ),
  sandboxPrestart: setting(
    'PLATFORM_SANDBOX_PRESTART',
    () => z.coerce.number().int().min(0).max(64).default(4),
    'Number of sandboxes started in advance, so that a call does not wait for one.',
  ),
} satisfies Settings;

const ALL_SETTINGS = { ...CORE_SETTINGS, ...LOCAL_SETTINGS };

/** Core's settings plus those of the local host. */
export interface LocalConfig extends ValuesOf<typeof ALL_SETTINGS> {}

/** Throws as `parseSettings` does. */
export const parseLocalConfig = (environment: Environment): LocalConfig => parseSettings(ALL_SETTINGS, environment);
