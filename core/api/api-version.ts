/** Version of the API in its OpenAPI document; raised when old clients no longer work. */
export const API_VERSION = '1';
