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
    'Port to listen on; 0 takes a free one.',
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
    'Domain below which each service has its host name. Browsers and curl resolve `*.localhost` themselves; on a server, a wildcard DNS entry leads here, and the proxy in front passes the `Host` header on.',
  ),
  maxSandboxes: setting(
    'PLATFORM_MAX_SANDBOXES',
    () => z.coerce.number().int().min(2).max(1000).optional(),
    'Maximum number of concurrent sandboxes; further calls queue, in turn between workspaces. By default as many as memory and processors allow.',
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
    'Key of Stripe, with which users buy credits (docs/billing.md). Without it, credits are bought with test cards that take no money, on a page that only this machine reaches.',
  ),
  stripeWebhookSecret: setting(
    'PLATFORM_STRIPE_WEBHOOK_SECRET',
    () => z.string().startsWith('whsec_').optional(),
    "Signing secret of Stripe's endpoint `<PLATFORM_BASE_URL>/webhooks/stripe`. Without it, a purchase counts only once its buyer returns from Stripe, or within the hour.",
  ),
  oidcClientSecret: setting(
    'PLATFORM_OIDC_CLIENT_SECRET',
    () => z.string().optional(),
    'Secret of the platform at the OpenID provider of `PLATFORM_OIDC_ISSUER` (docs/sign-in.md).',
  ),
  operatorKeyHash: setting(
    'PLATFORM_OPERATOR_KEY',
    () =>
      z
        .string()
        .regex(OPERATOR_KEY, OPERATOR_KEY_RULE)
        .transform((key) => hash('sha256', key))
        .optional(),
    "The operator's key, with which plans and credits are given over the API (docs/billing.md): 32 characters or more, such as those of `openssl rand -hex 32`. Without it, the API takes no such orders.",
  ),
  minFreeBytes: setting(
    'PLATFORM_MIN_FREE_MB',
    () =>
      z.coerce
        .number()
        .min(0)
        .transform((mb) => mb * 1024 ** 2)
        .optional(),
    'Space that is kept free on the disk of the data folder, in MB: while less is free, nothing new is stored (docs/limits.md). By default the larger of 1,000 MB and 2%, at most a tenth of the disk; 0 turns this off.',
  ),
  vaultKeyFile: setting(
    'PLATFORM_VAULT_KEY_FILE',
    () => z.string().optional(),
    'File of the key that encrypts the vault, created at first use. By default `vault.key` in the data folder. Put it elsewhere to keep it out of copies of the data folder.',
  ),
  sandboxKind: setting(
    'PLATFORM_SANDBOX',
    () => z.enum(['auto', 'bubblewrap', 'unshare', 'unsandboxed']).default('auto'),
    "How runs are isolated. `auto` takes unshare where it works, else bubblewrap. `unsandboxed` runs agents as ordinary processes of the platform's user: use it only for code that you trust.",
  ),
  sandboxPrestart: setting(
    'PLATFORM_SANDBOX_PRESTART',
    () => z.coerce.number().int().min(0).max(64).default(4),
    'Sandboxes kept started ahead, so that a call does not wait for one.',
  ),
} satisfies Settings;

const ALL_SETTINGS = { ...CORE_SETTINGS, ...LOCAL_SETTINGS };

/** Core's settings plus those of the local host. */
export interface LocalConfig extends ValuesOf<typeof ALL_SETTINGS> {}

/** Throws as `parseSettings` does. */
export const parseLocalConfig = (environment: Environment): LocalConfig => parseSettings(ALL_SETTINGS, environment);
