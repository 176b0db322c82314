import { createHash, timingSafeEqual } from 'node:crypto';
import type { Deps } from '#core/ports/deps.ts';
import type { Ids } from '#core/ports/ids.ts';
import type { Schedule } from './store.ts';

const SECRET_BYTES = 32;
const PREVIEW_LENGTH = 6;

/** A secret, to be shown once, and what a schedule keeps of it. */
export function newWebhookSecret(ids: Ids): {
  secret: string;
  kept: Pick<Schedule, 'webhook_secret_hash' | 'webhook_secret_preview'>;
} {
  const secret = Buffer.from(ids.randomBytes(SECRET_BYTES)).toString('base64url');
  return {
    secret,
    kept: {
      webhook_secret_hash: hashOf(secret),
      webhook_secret_preview: `${secret.slice(0, PREVIEW_LENGTH)}...`,
    },
  };
}

/** Secrets are random and long: no salt, no slow hash. Hexadecimal. */
const hashOf = (secret: string): string => createHash('sha256').update(secret).digest('hex');

/** Hashes are compared, of one length each, so a wrong secret takes as long as any other. */
export const isWebhookSecret = (given: string, hash: string): boolean =>
  timingSafeEqual(Buffer.from(hashOf(given)), Buffer.from(hash));

export const webhookUrl = ({ config }: Pick<Deps, 'config'>, scheduleId: string, secret: string): string =>
  `${config.baseUrl ?? ''}/webhooks/${scheduleId}/${secret}`;
