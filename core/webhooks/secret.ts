import { timingSafeEqual } from 'node:crypto';
import { hashWebhookSecret } from '../schedules/webhook-secret.ts';

/** Hashes are compared, of one length each, so a wrong secret takes as long as any other. */
export const isWebhookSecret = (given: string, hash: string): boolean =>
  timingSafeEqual(Buffer.from(hashWebhookSecret(given)), Buffer.from(hash));
