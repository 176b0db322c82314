import { createAwsSigner } from './aws-signer.ts';
import type { OutgoingRequest } from './send.ts';

/** What Amazon Bedrock signs its requests as; its endpoint is called `bedrock-runtime`. */
const SERVICE = 'bedrock';

/** Signs requests to Amazon Bedrock. Throws as {@link createAwsSigner} does. */
export function createBedrockSigner(region: string): (request: OutgoingRequest) => Promise<OutgoingRequest> {
  const sign = createAwsSigner(SERVICE, region);
  return async (request) => ({ ...request, headers: await sign(request) });
}
