/** @param {{ getStore(): Readonly<Record<string, string>> | undefined }} store */
export declare function setOwnVariables(store: {
    getStore(): Readonly<Record<string, string>> | undefined;
}): void;
/**
 * Returns a variable of the run.
 *
 * @param {string} name
 * @returns {string | undefined}
 */
export declare const variable: (name: string) => string | undefined;
