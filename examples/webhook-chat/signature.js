import { createHmac, timingSafeEqual } from 'node:crypto';

/** Senders retry a delivery for some minutes; an older one may be a replay attack. */
const MAX_AGE_SECONDS = 5 * 60;

/**
 * Whether a webhook comes from somebody who knows the secret. Two ways to sign are known:
 *
 * - Standard Webhooks, as this platform signs its alerts: `webhook-id`, `webhook-timestamp`, `webhook-signature`. A secret
 *   that begins with `whsec_` is the key in base64, any other is the key itself
 * - GitHub: `x-hub-signature-256`
 *
 * @param {Record<string, string | undefined>} headers in lower case
 * @param {Buffer} body as it came: the same JSON, written anew, has another signature
 * @param {string} secret
 * @param {number} now epoch milliseconds
 * @returns {string | undefined} why it is refused, `undefined` if it is not
 */
export function problemOf(headers, body, secret, now = Date.now()) {
  const github = headers['x-hub-signature-256'];
  if (github !== undefined) {
    const expected = `sha256=${createHmac('sha256', secret).update(body).digest('hex')}`;
    return isSame(github, expected) ? undefined : 'x-hub-signature-256 does not fit the body and the secret';
  }
  const { 'webhook-id': id, 'webhook-timestamp': timestamp, 'webhook-signature': signatures } = headers;
  if (!id || !timestamp || !signatures) {
    return 'it is not signed: send webhook-id, webhook-timestamp and webhook-signature, or x-hub-signature-256';
  }
  const age = Math.abs(now / 1000 - Number(timestamp));
  if (!(age <= MAX_AGE_SECONDS)) return 'webhook-timestamp is not within five minutes of now';
  const key = secret.startsWith('whsec_') ? Buffer.from(secret.slice('whsec_'.length), 'base64') : secret;
  const expected = `v1,${createHmac('sha256', key).update(`${id}.${timestamp}.`).update(body).digest('base64')}`;
  // After a change of the secret, senders sign with both secrets.
  if (signatures.split(' ').some((signature) => isSame(signature, expected))) return undefined;
  return 'webhook-signature does not fit the id, the timestamp, the body and the secret';
}

/** Compares in constant time, so that the expected text cannot be guessed letter by letter. */
export function isSame(given, expected) {
  const [one, other] = [given, expected].map((text) => createHmac('sha256', 'compare').update(text).digest());
  return timingSafeEqual(one, other);
}
