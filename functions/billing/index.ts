import { blobParts, operatorParts, paymentParts, tableParts } from '#aws/deps.ts';
import { billing } from '#core/api/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = {
  ...host,
  ...tableParts(host),
  ...blobParts(host),
  ...paymentParts(host),
  ...operatorParts(host),
};
export const handler = createHandler('billing', deps, billing).use(observe);
