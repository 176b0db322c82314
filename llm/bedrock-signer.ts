import { createHash, createHmac, type Hash, type Hmac } from 'node:crypto';
import { defaultProvider } from '@aws-sdk/credential-provider-node';
import { SignatureV4 } from '@smithy/signature-v4';
import type { OutgoingRequest } from './send.ts';

/** What Amazon Bedrock signs its requests as; its endpoint is called `bedrock-runtime`. */
const SERVICE = 'bedrock';

/** SHA-256 of `node:crypto`, in the form that the SDK asks for. */
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
 * Signs requests to Amazon Bedrock with AWS's Signature Version 4, and with the credentials that AWS's own tools would use:
 * on Lambda the function's role. They are renewed before they expire. Throws if there are none.
 */
export function createBedrockSigner(region: string): (request: OutgoingRequest) => Promise<OutgoingRequest> {
  const signer = new SignatureV4({ service: SERVICE, region, credentials: defaultProvider(), sha256: Sha256 });
  return async ({ url, headers, body }) => {
    const signed = await signer.sign({
      method: 'POST',
      protocol: url.protocol,
      hostname: url.hostname,
      path: url.pathname,
      query: Object.fromEntries(url.searchParams),
      headers: { ...headers, host: url.host },
      body,
    });
    return { url, headers: signed.headers, body };
  };
}
