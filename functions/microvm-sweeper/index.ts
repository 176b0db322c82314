import { LambdaMicrovmsClient } from '@aws-sdk/client-lambda-microvms';
import { sweepMicrovms } from '#aws/microvm/sweep.ts';
import { host } from '../host.ts';

const client = new LambdaMicrovmsClient();

/** Invoked by a clock. The next tick retries after a failure. */
export const handler = (): Promise<void> => sweepMicrovms({ ...host, client }, host.config.microvmImage);
