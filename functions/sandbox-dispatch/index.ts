import { tableParts } from '#aws/deps.ts';
import { type DispatchRequest, dispatch } from '#aws/fargate/dispatch.ts';
import { host } from '../host.ts';

const deps = { ...host, ...tableParts(host) };
const limits = { max: host.config.poolMax, startMs: host.config.poolStartMs };

/** Invoked by the functions that open sandboxes, once for each request to a task. */
export const handler = awslambda.streamifyResponse<DispatchRequest>((request, output) =>
  dispatch(deps, limits, request, output),
);
