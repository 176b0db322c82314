import { hash, timingSafeEqual } from 'node:crypto';
import type { Deps } from '#core/ports/deps.ts';
import { type Ids, newToken } from '#core/ports/ids.ts';
import type { Schedule } from './schedule.ts';

const PREVIEW_LENGTH = 6;

/** Creates a secret, which is shown once, and the members that the schedule stores for it. */
export function newWebhookSecret(ids: Ids): {
  secret: string;
  kept: Pick<Schedule, 'webhookSecretHash' | 'webhookSecretPreview'>;
} {
  const secret = newToken(ids);
  const webhookSecretPreview = `${secret.slice(0, PREVIEW_LENGTH)}...`;
  return { secret, kept: { webhookSecretHash: hashOf(secret), webhookSecretPreview } };
}

/** Hexadecimal. Secrets are random and long, so they need neither salt nor a slow hash. */
const hashOf = (secret: string): string => hash('sha256', secret);

/** Compares hashes of equal length, so a wrong secret takes as long as any other. */
export const isWebhookSecret = (given: string, kept: string): boolean =>
  timingSafeEqual(Buffer.from(hashOf(given)), Buffer.from(kept));

export const webhookUrl = ({ config }: Pick<Deps, 'config'>, scheduleId: string, secret: string): string =>
  `${config.callUrl ?? config.baseUrl ?? ''}/webhooks/${scheduleId}/${secret}`;
