import { LambdaMicrovmsClient } from '@aws-sdk/client-lambda-microvms';
import { sweepMicrovms } from '#aws/microvm/sweep.ts';
import { host } from '../host.ts';

const client = new LambdaMicrovmsClient();

/** Called by the clock. One that fails is followed by the next. */
export const handler = (): Promise<void> => sweepMicrovms({ ...host, client }, host.config.microvmImage);
