// Does one job with the JavaScript SDK: JSON on stdin, JSON on stdout. driver.py is the same for Python.
import { text } from 'node:stream/consumers';
import * as sdk from '../../sdk/js/index.js';

/** Jobs are in seconds, as Python is. */
const withMs = ({ timeout, ...options }) => ({ ...options, ...(timeout !== undefined && { timeout: timeout * 1000 }) });

async function work({ module, method, args, options, headers }) {
  if (module === 'agent') {
    const client = headers ? sdk.AgentClient.fromRequest({ headers }) : new sdk.AgentClient();
    if (method !== 'callAll') return client.call(...args, withMs(options));
    return Promise.all(args[0].map((ref) => client.call(ref, {}, withMs(options))));
  }
  if (module === 'platform') {
    const platform = new sdk.Platform();
    if (method === 'stream') return Array.fromAsync(platform.stream(...args, withMs(options)));
    if (method === 'startAndWait') return platform.wait(await platform.start(...args), withMs(options));
    if (method === 'startAndCancel') return platform.cancel(await platform.start(...args));
    return platform[method](...args, withMs(options));
  }
  if (module === 'storage' && method === 'update') {
    return sdk.storage.update(...args, (value) => ({ count: (value?.count ?? 0) + 1 }), options);
  }
  return { storage: sdk.storage, message: sdk.message, task: sdk.task }[module][method](
    ...args,
    ...(Object.keys(options).length > 0 ? [options] : []),
  );
}

const job = JSON.parse(await text(process.stdin));
const outcome = await work({ args: [], options: {}, ...job }).then(
  (value) => ({ value: value ?? null }),
  (error) => ({
    error: {
      type: error.constructor.name,
      code: error.code ?? null,
      status: error.status ?? null,
      message: error.message,
      isRetryable: error.isRetryable ?? null,
      suggestedWaitTime: error.suggestedWaitTime ?? null,
      requestId: error.requestId ?? null,
      responseBody: error.responseBody ?? null,
      exitCode: error.exitCode ?? null,
    },
  }),
);
console.log(JSON.stringify(outcome));
