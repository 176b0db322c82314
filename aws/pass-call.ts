import { LambdaClient } from '@aws-sdk/client-lambda';
import type { HttpResponse } from '#core/http/message.ts';
import type { Clock } from '#core/ports/clock.ts';
import { invokeOnce } from './fargate/invoke.ts';

/** Between the status and headers of a streamed response and its body. */
const DELIMITER = new Uint8Array(8);

interface Prelude {
  readonly statusCode: number;
  readonly headers?: Readonly<Record<string, string>>;
}

/**
 * Passes a request on to a function of the API with streamed responses, as an event of API Gateway, and returns the
 * response. The function works on afterwards.
 */
export function callPasser({ clock }: { readonly clock: Clock }, functionName: string) {
  // A request that may have run is not sent again.
  const client = new LambdaClient({ maxAttempts: 1 });
  return async (event: object): Promise<HttpResponse> => {
    const { head, body } = await invokeOnce<Prelude>({ client, clock }, functionName, event, { delimiter: DELIMITER });
    const headers = head.headers ?? {};
    const isJson = headers['content-type']?.startsWith('application/json') ?? false;
    return { status: head.statusCode, headers, body: isJson ? await wholeJson(body) : body };
  };
}

/**
 * Reads JSON up to its end. Lambda ends the stream only once the function has ended, which may be minutes after the
 * response.
 */
async function wholeJson(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  let bytes = Buffer.alloc(0);
  for await (const chunk of chunks) {
    bytes = Buffer.concat([bytes, chunk]);
    if (isWhole(bytes)) break;
  }
  return bytes;
}

function isWhole(bytes: Buffer): boolean {
  // No beginning of an object is an object.
  if (bytes.at(-1) !== BRACE) return false;
  try {
    JSON.parse(bytes.toString());
    return true;
  } catch {
    return false;
  }
}

const BRACE = 125;
