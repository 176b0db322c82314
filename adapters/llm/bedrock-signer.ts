import { createAwsSigner } from './aws-signer.ts';
import type { OutgoingRequest } from './send.ts';

/** Service name in signatures for Amazon Bedrock; its endpoint is called `bedrock-runtime`. */
const SERVICE = 'bedrock';

/** Signs requests to Amazon Bedrock. Throws the same errors as {@link createAwsSigner}. */
export function createBedrockSigner(region: string): (request: OutgoingRequest) => Promise<OutgoingRequest> {
  const sign = createAwsSigner(SERVICE, region);
  return async (request) => ({ ...request, headers: await sign(request) });
}
