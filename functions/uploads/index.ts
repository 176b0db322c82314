import { tableParts, uploadFormParts } from '#aws/deps.ts';
import { uploads } from '#core/api/handlers.ts';
import { host, observe } from '../host.ts';
import { createHandler } from '../lambda.ts';

const deps = { ...host, ...tableParts(host), ...uploadFormParts(host) };
export const handler = createHandler('uploads', deps, uploads).use(observe);
