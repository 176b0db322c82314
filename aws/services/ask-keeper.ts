import { InvokeCommand, LambdaClient } from '@aws-sdk/client-lambda';
import { HostBusyError, PlatformError } from '#core/base/errors.ts';
import type { BootDocument } from '#core/ports/service-host.ts';
import { mapThrottlingErrors } from '../tables/throttles.ts';
import type { BootQuestion, BootReply } from './keeper.ts';

/** API Gateway ends the request a little later. */
const LIMIT_MS = 25_000;

/** Asks the keeper, with the Region and credentials of the environment. Throws its refusals as they are. */
export async function askKeeper(
  functionName: string,
  question: BootQuestion,
  client: LambdaClient = mapThrottlingErrors(new LambdaClient()),
): Promise<BootDocument> {
  const { Payload, FunctionError } = await client.send(
    new InvokeCommand({ FunctionName: functionName, Payload: Buffer.from(JSON.stringify(question)) }),
    { abortSignal: AbortSignal.timeout(LIMIT_MS) },
  );
  // The text of an unexpected error stays in the log of the keeper.
  if (FunctionError !== undefined || Payload === undefined) throw new Error('the function service-keeper failed');
  const reply: BootReply | null = JSON.parse(Buffer.from(Payload).toString());
  if (reply && 'document' in reply) return reply.document;
  if (reply && 'error' in reply) throw new PlatformError(reply.error.code, reply.error.message, reply.error.extra);
  if (reply) throw new HostBusyError('the function service-keeper found its host busy');
  throw new Error('the function service-keeper knows no such question');
}
