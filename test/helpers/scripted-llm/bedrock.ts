import { createHash, createHmac, timingSafeEqual } from 'node:crypto';
import type { IncomingMessage } from 'node:http';
import { anthropic } from './anthropic.ts';
import type { Wire } from './turns.ts';

/** Amazon Bedrock's form of Anthropic's Messages API. Its errors have AWS's form. */
export const bedrock: Wire = {
  ...anthropic,
  keyOf: () => undefined,
  read(body, url, headers) {
    const asked = anthropic.read(body, url, headers);
    const isKnown = /(^|[./])anthropic\.|^arn:/.test(asked.model);
    return isKnown ? asked : { ...asked, problem: asked.problem ?? 'The provided model identifier is invalid.' };
  },
  error: (_status, message) => ({ message }),
};

/** AWS account of the Bedrock caller. */
export interface BedrockAccount {
  readonly region: string;
  /** Returns the secret key of an access key, or `undefined` if it does not exist. */
  readonly secretOf: (accessKey: string) => string | undefined;
  readonly sessionToken?: string;
}

export const isSigned = ({ headers }: IncomingMessage): boolean =>
  headers.authorization?.startsWith('AWS4-HMAC-SHA256 ') === true;

/** Maximum clock skew that AWS accepts. */
const MAX_SKEW_MS = 5 * 60_000;

/**
 * Returns why AWS would refuse the signature of a request, by Signature Version 4
 * (docs.aws.amazon.com/IAM/latest/UserGuide/reference_sigv-create-signed-request.html), or `undefined` if it is valid.
 */
export function signatureProblem(
  { method, url, headers }: IncomingMessage,
  body: string,
  { region, secretOf, sessionToken }: BedrockAccount,
): string | undefined {
  const [, accessKey = '', date = '', scopeRegion = '', service = '', names = '', signature = ''] =
    /^AWS4-HMAC-SHA256 Credential=([^/]+)\/(\d{8})\/([^/]+)\/([^/]+)\/aws4_request, SignedHeaders=([^,]+), Signature=([0-9a-f]{64})$/.exec(
      headers.authorization ?? '',
    ) ?? [];
  const secret = secretOf(accessKey);
  if (secret === undefined) return 'The security token included in the request is invalid.';
  if (service !== 'bedrock') return `Credential should be scoped to correct service: 'bedrock', not '${service}'.`;
  if (scopeRegion !== region) return `Credential should be scoped to a valid region, not '${scopeRegion}'.`;
  if (headers['x-amz-security-token'] !== sessionToken) return 'The security token included in the request is invalid.';
  const time = String(headers['x-amz-date']);
  const signedAt = Date.parse(time.replace(/^(....)(..)(..)T(..)(..)(..)Z$/, '$1-$2-$3T$4:$5:$6Z'));
  if (!(Math.abs(Date.now() - signedAt) < MAX_SKEW_MS) || !time.startsWith(date)) return 'Signature expired.';
  const signed = names.split(';');
  const needed = ['host', ...Object.keys(headers).filter((name) => name.startsWith('x-amz-'))];
  const missing = needed.filter((name) => !signed.includes(name));
  if (missing.length > 0) return `'${missing}' must be a signed header.`;
  const { pathname, searchParams } = new URL(url!, 'http://aws');
  searchParams.sort();
  const canonical = [
    method,
    pathname.split('/').map(encodeURIComponent).join('/'),
    searchParams.toString().replaceAll('+', '%20'),
    ...signed.map((name) => `${name}:${String(headers[name]).trim().replaceAll(/ +/g, ' ')}`),
    '',
    names,
    hash(body),
  ].join('\n');
  const scope = `${date}/${region}/${service}/aws4_request`;
  const toSign = ['AWS4-HMAC-SHA256', time, scope, hash(canonical)].join('\n');
  const key = [date, region, service, 'aws4_request'].reduce<string | Buffer>(hmac, `AWS4${secret}`);
  const isRight = timingSafeEqual(hmac(key, toSign), Buffer.from(signature, 'hex'));
  return isRight ? undefined : 'The request signature we calculated does not match the signature you provided.';
}

const hash = (text: string): string => createHash('sha256').update(text).digest('hex');
const hmac = (key: string | Buffer, text: string): Buffer => createHmac('sha256', key).update(text).digest();
