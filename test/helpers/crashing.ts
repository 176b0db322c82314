/** How many calls of a process's ports are left until it dies; and whether it dies before the last one, or after it. */
export interface Fuse {
  callsLeft: number;
  readonly isAfter: boolean;
}

/** What a call of a dead process's port ends with. */
export class ProcessDied extends Error {}

/** A port as one process sees it, which dies when its fuse has burnt down: from then on every call fails. */
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
