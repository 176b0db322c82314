/**
 * Runs the agent in `PLATFORM_AGENTS_DIR/org/name/version` as the platform would: JSON in, JSON out. For agents on the
 * author's own machine, where the command line tool runs them instead of the platform.
 *
 * @param {{ agent: string, folder: string[], input: object, chain?: string, hops?: number, timeout: number }} call
 */
export declare function runLocally({ agent, folder, input, chain, hops, timeout }: {
    agent: string;
    folder: string[];
    input: object;
    chain?: string;
    hops?: number;
    timeout: number;
}): Promise<any>;
