// Does jobs with the JavaScript SDK: a line of JSON on stdin, a line on stdout. driver.py is the same for Python.
import { createInterface } from 'node:readline';
import * as sdk from '../../sdk/js/index.js';

/** Jobs are in seconds, as Python is. */
const withMs = ({ timeout, ...options }) => ({ ...options, ...(timeout !== undefined && { timeout: timeout * 1000 }) });

async function work({ module, method, args, options, headers, steps }) {
  if (module === 'agent') {
    const client = headers ? sdk.AgentClient.fromRequest({ headers }) : new sdk.AgentClient();
    if (method !== 'callAll') return client.call(...args, withMs(options));
    return Promise.all(args[0].map((ref) => client.call(ref, {}, withMs(options))));
  }
  if (module === 'platform') {
    const platform = new sdk.Platform();
    if (method === 'stream' || method === 'watch') return collected(platform[method](...args, withMs(options)));
    if (['list', 'runs', 'shares', 'scores'].includes(method)) return collected(platform[method](...args));
    if (method === 'streamFirst') {
      const stream = platform.stream(...args, withMs(options));
      for await (const event of stream) return [event, stream.runId];
    }
    if (method === 'streamClosed') {
      const stream = platform.stream(...args, withMs(options));
      const events = [];
      for await (const event of stream) {
        events.push(event);
        // While the loop waits for the next one.
        setTimeout(() => stream.close(), 100);
      }
      return events;
    }
    if (method === 'callAborted') {
      const { name } = await platform.call(...args, { signal: AbortSignal.timeout(3000) }).catch((error) => error);
      return name === 'TimeoutError' || name === 'AbortError' ? 'ended' : name;
    }
    if (method === 'uploadTwice') {
      const upload = await platform.upload(args[0]);
      return Promise.all([1, 2].map(async () => (await platform.call(args[1], {}, { files: [upload] })).data));
    }
    if (method === 'startAndWait') return platform.wait(await platform.start(...args), withMs(options));
    if (method === 'startAndCancel') return platform.cancel(await platform.start(...args));
    return platform[method](...args, withMs(options));
  }
  if (module === 'session') {
    let session = new sdk.Platform().session(args[0], args[1], options);
    const values = [];
    for (const [step, ...given] of steps) {
      const made = session[step](...given);
      if (step === 'stream' || step === 'messages') values.push(await collected(made));
      else if (step === 'fork') {
        session = await made;
        values.push(await session.id());
      } else values.push((await made) ?? null);
    }
    return values;
  }
  if (module === 'storage' && method === 'update') {
    return sdk.storage.update(...args, (value) => ({ count: (value?.count ?? 0) + 1 }), options);
  }
  return { storage: sdk.storage, message: sdk.message, task: sdk.task }[module][method](
    ...args,
    ...(Object.keys(options).length > 0 ? [options] : []),
  );
}

/** Node 20 has no Array.fromAsync. */
async function collected(rows) {
  const all = [];
  for await (const row of rows) all.push(row);
  return all;
}

const ownEnvironment = { ...process.env };
for await (const line of createInterface({ input: process.stdin })) {
  const { env, deadlineIn, ...job } = JSON.parse(line);
  process.env = { ...ownEnvironment, ...env };
  if (deadlineIn !== undefined) process.env.PLATFORM_DEADLINE_MS = String(Date.now() + deadlineIn * 1000);
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
        runId: error.runId ?? null,
        hint: error.hint ?? null,
        docsUrl: error.docsUrl ?? null,
        responseBody: error.responseBody ?? null,
        exitCode: error.exitCode ?? null,
      },
    }),
  );
  // Node's readline ends lines there, too.
  console.log(JSON.stringify(outcome).replace(/[\u2028\u2029]/g, (mark) => `\\u${mark.charCodeAt(0).toString(16)}`));
}
// A request that waits must not keep the process.
process.exit();
