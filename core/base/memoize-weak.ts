/**
 * `make` with its results kept for as long as the objects that they were made of, which must not change: schemas and definitions
 * of an agent's version, which come again in each of its calls.
 */
export function memoizeWeak<Key extends object, Value extends object | string>(
  make: (key: Key) => Value,
): (key: Key) => Value {
  const made = new WeakMap<Key, Value>();
  return (key) => {
    let value = made.get(key);
    if (value === undefined) {
      value = make(key);
      made.set(key, value);
    }
    return value;
  };
}
