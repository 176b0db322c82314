interface Capacity {
  readonly Table?: { readonly CapacityUnits?: number };
  readonly GlobalSecondaryIndexes?: Readonly<Record<string, { readonly CapacityUnits?: number }>>;
}

/**
 * Converts the `ReturnConsumedCapacity: INDEXES` answer of DynamoDB Local to the units that DynamoDB bills. A
 * transaction costs twice on the table and once on its indexes, where DynamoDB Local counts four times. A write whose
 * condition fails costs a unit although its answer has no capacity (`undefined`).
 */
export function consumedUnits(action: string, capacity: unknown): { readUnits: number; writeUnits: number } {
  const [ofTable, ofIndexes] = action === 'TransactWriteItems' ? [1 / 2, 1 / 4] : [1, 1];
  const entries = capacity === undefined ? [] : ([capacity].flat() as Capacity[]);
  const units = entries.reduce((sum, { Table, GlobalSecondaryIndexes = {} }) => {
    const indexes = Object.values(GlobalSecondaryIndexes).reduce(
      (all, { CapacityUnits = 0 }) => all + CapacityUnits,
      0,
    );
    return sum + (Table?.CapacityUnits ?? 0) * ofTable + indexes * ofIndexes;
  }, 0);
  const isRead = /^(GetItem|BatchGetItem|Query|Scan|TransactGetItems)$/.test(action);
  return isRead ? { readUnits: units, writeUnits: 0 } : { readUnits: 0, writeUnits: units || 1 };
}
