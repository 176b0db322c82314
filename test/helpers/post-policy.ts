import { createHmac } from 'node:crypto';
import { readMultipart } from '#core/http/multipart.ts';
import { AWS_TEST_ACCOUNT } from './aws-account.ts';

/** Object that a form POST would create in S3. */
interface FormPost {
  readonly bucket: string;
  readonly key: string;
  /** S3's refusal; absent when the policy allows the form. */
  readonly refusal?: { readonly status: number; readonly code: string };
}

/**
 * Validates a form against its policy as S3 does, because moto does not: the signature, the expiry, a condition for
 * every field and a field for every condition, and the size
 * (docs.aws.amazon.com/AmazonS3/latest/API/sigv4-HTTPPOSTConstructPolicy.html).
 */
export async function judgeFormPost(bucket: string, contentType: string, body: Uint8Array): Promise<FormPost> {
  const request = new Request('http://s3', {
    method: 'POST',
    headers: { 'content-type': contentType },
    body: body as Uint8Array<ArrayBuffer>,
  });
  const { fields: given, files } = await readMultipart(request, { bytes: 1024 ** 3 });
  const fields = Object.fromEntries(Object.entries(given).map(([name, value]) => [name.toLowerCase(), value]));
  return { bucket, key: fields.key ?? '', refusal: refusalOf(bucket, fields, files[0]?.content.byteLength) };
}

type Condition = readonly [operator: string, ...operands: unknown[]] | Readonly<Record<string, string>>;

function refusalOf(bucket: string, fields: Record<string, string>, size: number | undefined): FormPost['refusal'] {
  if (fields.policy === undefined || size === undefined) return { status: 400, code: 'InvalidArgument' };
  if (fields['x-amz-signature'] !== signatureOf(fields)) return { status: 403, code: 'SignatureDoesNotMatch' };
  const policy = JSON.parse(Buffer.from(fields.policy, 'base64').toString());
  if (Date.parse(policy.expiration) <= Date.now()) return { status: 403, code: 'AccessDenied' };

  const actual: Record<string, string> = { ...fields, bucket };
  const named = new Set(['policy', 'x-amz-signature']);
  for (const condition of policy.conditions as Condition[]) {
    if (Array.isArray(condition)) {
      const [operator, from, to] = condition;
      if (operator !== 'content-length-range') throw new Error(`the policy has the operator ${operator}`);
      if (size < from) return { status: 400, code: 'EntityTooSmall' };
      if (size > to) return { status: 400, code: 'EntityTooLarge' };
    } else {
      const [[name, value]] = Object.entries(condition) as [[string, string]];
      named.add(name.toLowerCase());
      if (actual[name.toLowerCase()] !== value) return { status: 403, code: 'AccessDenied' };
    }
  }
  const isNamed = Object.keys(fields).every((name) => named.has(name) || name.startsWith('x-ignore-'));
  return isNamed ? undefined : { status: 403, code: 'AccessDenied' };
}

function signatureOf(fields: Record<string, string>): string {
  const scope = (fields['x-amz-credential'] ?? '').split('/').slice(1);
  const secret: string | Buffer = `AWS4${AWS_TEST_ACCOUNT.credentials.secretAccessKey}`;
  const hmac = (key: string | Buffer, text: string) => createHmac('sha256', key).update(text).digest();
  return hmac(scope.reduce<string | Buffer>(hmac, secret), fields.policy!).toString('hex');
}
