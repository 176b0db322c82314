import { createHash, createHmac, type Hash, type Hmac } from 'node:crypto';
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { SignatureV4 } from '@smithy/signature-v4';

/** A request to AWS before it is sent. */
export interface AwsRequest {
  /** @default 'POST' */
  readonly method?: string;
  readonly url: URL;
  /** Header names in lower case. */
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
}

/** SHA-256 of `node:crypto` with the interface that the SDK expects. */
class Sha256 {
  readonly #secret: Uint8Array | undefined;
  #hash: Hash | Hmac;

  constructor(secret?: string | ArrayBuffer | ArrayBufferView) {
    this.#secret = secret === undefined ? undefined : bytesOf(secret);
    this.#hash = this.#begin();
  }

  update(data: string | ArrayBuffer | ArrayBufferView): void {
    this.#hash.update(bytesOf(data));
  }

  async digest(): Promise<Uint8Array> {
    return this.#hash.digest();
  }

  reset(): void {
    this.#hash = this.#begin();
  }

  #begin(): Hash | Hmac {
    return this.#secret === undefined ? createHash('sha256') : createHmac('sha256', this.#secret);
  }
}

function bytesOf(data: string | ArrayBuffer | ArrayBufferView): Uint8Array {
  if (typeof data === 'string') return Buffer.from(data);
  return ArrayBuffer.isView(data)
    ? new Uint8Array(data.buffer, data.byteOffset, data.byteLength)
    : new Uint8Array(data);
}

/**
 * Signs requests to an AWS service with Signature Version 4 and the credentials that AWS's own tools would use (on
 * Lambda the function's role), which are renewed before they expire. Resolves to the headers of the signed request.
 * Throws if there are no credentials.
 */
export function createAwsSigner(
  service: string,
  region: string,
): (request: AwsRequest) => Promise<Record<string, string>> {
  const signer = new SignatureV4({ service, region, credentials: defaultProvider(), sha256: Sha256 });
  return async ({ method = 'POST', url, headers, body }) => {
    const signed = await signer.sign({
      method,
      protocol: url.protocol,
      hostname: url.hostname,
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      headers: { ...headers, host: url.host },
      body,
    });
    return signed.headers;
  };
}
