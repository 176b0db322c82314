/**
 * Memoizes `make` for as long as its arguments are alive. The arguments must be immutable, such as the schemas and
 * definition of an agent version, which each of its calls uses.
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
