"""Lines as scontrol 22.05 prints them."""


def job_line(
    number: int = 7,
    *,
    head: str = "",
    name: str = "train",
    user: str = "games(5)",
    account: str = "(null)",
    state: str = "RUNNING",
    batch: int = 1,
    start: str = "1794822104",
    partition: str = "normal",
    nodes: str = "   Nodes=n1 CPU_IDs=0 Mem=0 GRES=gpu:2(IDX:0-1)",
    comment: str = "",
) -> str:
    """Return the line of one job; what is hostile is printed as it is."""
    said = f" Comment={comment} " if comment else ""
    return (
        f"JobId={number}{head} JobName={name} UserId={user} GroupId=games(60) MCS_label=N/A Priority=4294 Nice=0 "
        f"Account={account} QOS=(null) JobState={state} Reason=None Dependency=(null) Requeue=1 Restarts=0 "
        f"BatchFlag={batch} Reboot=0 ExitCode=0:0 DerivedExitCode=0:0 RunTime=00:00:02 TimeLimit=UNLIMITED "
        f"SubmitTime=1794822103 EligibleTime=1794822103 AccrueTime=1794822103 StartTime={start} EndTime=Unknown "
        f"Deadline=N/A SuspendTime=None SecsPreSuspend=0 LastSchedEval=1794822104 Partition={partition} "
        f"AllocNode:Sid=localhost:20904 ReqNodeList=(null) ExcNodeList=(null) NodeList=n1 BatchHost=n1 NumNodes=1 "
        f"NumCPUs=1 NumTasks=1 CPUs/Task=1 ReqB:S:C:T=0:0:*:* TRES=cpu=1,node=1,billing=1 Socks/Node=* "
        f"NtasksPerN:B:S:C=0:0:*:* CoreSpec=* JOB_GRES=gpu:2{nodes} MinCPUsNode=1 MinMemoryNode=0 MinTmpDiskNode=0 "
        f"Features=(null) DelayBoot=00:00:00 OverSubscribe=OK Contiguous=0 Licenses=(null) Network=(null) "
        f"Command=(null) WorkDir=/{said} StdErr=/dev/null StdIn=/dev/null StdOut=/dev/null Power= "
        f"TresPerNode=gres:gpu:2 \n"
    )
