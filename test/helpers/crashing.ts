/** Number of port calls until a process dies, and whether it dies after the last call or before it. */
export interface Fuse {
  callsLeft: number;
  readonly isAfter: boolean;
}

/** Error of every port call of a dead process. */
export class ProcessDied extends Error {}

/** Wraps a port as one process sees it: once its fuse has burnt down, every call fails. */
export function crashing<Port extends object>(port: Port, fuse: Fuse): Port {
  return new Proxy(port, {
    get(target, name) {
      const method = Reflect.get(target, name, target);
      if (typeof method !== 'function') return method;
      return (...values: unknown[]) => {
        fuse.callsLeft -= 1;
        if (fuse.callsLeft > 0) return method.apply(target, values);
        if (fuse.callsLeft < 0 || !fuse.isAfter) throw new ProcessDied();
        const done = method.apply(target, values);
        if (!(done instanceof Promise)) throw new ProcessDied();
        return done.then(() => {
          throw new ProcessDied();
        });
      };
    },
  });
}
