/** Variables of the call that the running code belongs to, where a program answers several at once (`serve.js`). */
/** @type {{ getStore(): Readonly<Record<string, string>> | undefined } | undefined} */
let ownVariables;

/** @param {{ getStore(): Readonly<Record<string, string>> | undefined }} store */
export function setOwnVariables(store) {
  ownVariables = store;
}

/**
 * Returns a variable of the run.
 *
 * @param {string} name
 * @returns {string | undefined}
 */
export const variable = (name) => ownVariables?.getStore()?.[name] ?? process.env[name];
