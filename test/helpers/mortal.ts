import type { AllDeps } from '#core/ports/deps.ts';
import type { LlmRequest } from '#core/ports/llm.ts';
import { type MemoryDeps, memoryDeps } from './memory-deps.ts';

/**
 * In-memory platform whose clock stops during (real-time) model calls, so that a busy machine misses no run deadline.
 */
export interface PatientDeps extends MemoryDeps {
  readonly asking: ReadonlySet<Promise<unknown>>;
}

export function patientDeps(settings: Parameters<typeof memoryDeps>[0]): PatientDeps {
  const memory = memoryDeps(settings);
  const asking = new Set<Promise<unknown>>();
  return {
    ...memory,
    asking,
    llm: {
      async generate(request: LlmRequest) {
        const answer = memory.llm.generate(request);
        asking.add(answer);
        try {
          return await answer;
        } finally {
          asking.delete(answer);
        }
      },
    },
  };
}

/** Simulates a process that dies at port call number `lifetime`: this call and later ones are never answered. */
export function mortal(deps: PatientDeps, lifetime: number, lastOneHappens: boolean) {
  const death = Promise.withResolvers<void>();
  let asked = 0;
  const forever = new Promise<never>(() => {});
  const wrapped = <Port extends object>(port: Port): Port =>
    new Proxy(port, {
      get(target, name) {
        const method = Reflect.get(target, name);
        if (typeof method !== 'function') return method;
        return async (...args: unknown[]) => {
          asked += 1;
          if (asked < lifetime) return method.apply(target, args);
          if (asked === lifetime && lastOneHappens) await method.apply(target, args);
          death.resolve();
          return forever;
        };
      },
    });
  const { main, runs, counters, outbound, llm: model, vault } = deps;
  const process: AllDeps = {
    ...deps,
    main: wrapped(main),
    runs: wrapped(runs),
    counters: wrapped(counters),
    outbound: wrapped(outbound),
    llm: wrapped(model),
    vault: wrapped(vault),
  };
  return { process, death: death.promise, asked: () => asked };
}

/** Advances time until the promise is settled. */
export async function settled<T>({ clock, asking }: PatientDeps, promise: Promise<T>): Promise<T> {
  let isSettled = false;
  promise.catch(() => {}).finally(() => (isSettled = true));
  while (!isSettled) {
    await Promise.allSettled(asking);
    await clock.advance(500);
  }
  return promise;
}
