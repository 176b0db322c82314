/**
 * Runs the agent in `PLATFORM_AGENTS_DIR/org/name/version` as the platform would: JSON in, JSON out. For agents that the
 * command line tool runs on the author's own machine.
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
