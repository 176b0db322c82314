import type { Table } from '#core/ports/table.ts';

interface CountedOperation {
  /** Name under which the operation is counted. */
  readonly table: string;
  readonly method: string;
  /** Items read or written, at least one. */
  readonly items: number;
  /** Position in the chain of dependent operations. Operations that overlap have the same stage. */
  readonly stage: number;
}

/** Counts table operations and the longest chain of dependent ones. */
export class OperationCounter {
  readonly operations: CountedOperation[] = [];
  #ended = 0;

  get items(): number {
    return this.operations.reduce((sum, { items }) => sum + items, 0);
  }

  /** Length of the longest chain of dependent operations so far. */
  get stages(): number {
    return this.#ended;
  }

  count(table: Table, name = 'table'): Table {
    const counted =
      <Args extends unknown[], Result>(
        method: string,
        call: (...args: Args) => Promise<Result>,
        itemsOf: (args: Args, result: Result) => number = () => 1,
      ) =>
      async (...args: Args): Promise<Result> => {
        const stage = this.#ended + 1;
        // Operations that begin together run concurrently, as over a network.
        await new Promise(setImmediate);
        const result = await call(...args);
        this.operations.push({ table: name, method, items: itemsOf(args, result), stage });
        this.#ended = Math.max(this.#ended, stage);
        return result;
      };
    return {
      get: counted('get', (key) => table.get(key)),
      batchGet: counted(
        'batchGet',
        (keys) => table.batchGet(keys),
        ([keys]) => keys.length,
      ),
      put: counted('put', (item, condition) => table.put(item, condition)),
      update: counted('update', (key, changes, condition) => table.update(key, changes, condition)),
      delete: counted('delete', (key, condition) => table.delete(key, condition)),
      query: counted(
        'query',
        (query) => table.query(query),
        (_, { items }) => Math.max(1, items.length),
      ),
      // The count of a host that counts without reading the items.
      ...(table.count && { count: counted('count', (queries) => table.count!(queries)) }),
      transact: counted(
        'transact',
        (operations) => table.transact(operations),
        ([operations]) => operations.length,
      ),
    };
  }
}
